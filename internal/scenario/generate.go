package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/loader/dataset"
)

// unlimited stands for an amplification that no small table reaches.
const unlimited = 1e6

// Generate makes a case of every layout and rule from a seed: n and m are the
// bucket counts that the training and the first staging table have, if they
// have any.
func Generate(seed uint64, n, m int) *Case {
	r := rand.New(rand.NewPCG(seed, 11))
	g := &generator{
		Rand: r, Case: &Case{Name: fmt.Sprintf("seed-%d", seed), ScanRows: 1 + r.IntN(40), Layouts: Coverage{}},
		kind: pick(r, keyKinds...), keys: 1 + r.IntN(16),
		start: pick(r, time.Date(2024, 2, 27, 20, 0, 0, 0, time.UTC), time.Date(1969, 12, 30, 22, 0, 0, 0, time.UTC)),
	}
	g.coarse, g.parted = g.chance(2), g.chance(4)
	g.counts = []int{n, m, 1 + r.IntN(16), 1 + r.IntN(16), 1 + r.IntN(16)}
	g.Dataset = dataset.Dataset{Name: g.Name, Key: []string{"k"}, Training: dataset.Training{Table: "ml.train"}}
	if g.chance(3) {
		g.Dataset.Key = append(g.Dataset.Key, "k2")
	}
	if g.chance(4) {
		g.alignment = pick(r, alignments...)
	}
	g.chooseDistinct()
	g.Training = g.trainingTable()
	for i := range 1 + g.IntN(2) + g.IntN(2) + g.IntN(2) {
		g.stagingEntry(i)
	}
	if g.chance(4) {
		g.Dataset.Training.Filter = g.trainingFilter()
	}
	g.query()
	return g.Case
}

type generator struct {
	*rand.Rand
	*Case
	kind      keyKind
	keys      int       // distinct keys
	counts    []int     // of buckets: training, then per staging table
	start     time.Time // of all times
	coarse    bool      // times are few
	parted    bool      // tables like to be partitioned by values of the key
	alignment alignment // zero: no entry is aligned
}

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (g *generator) trainingFilter() string {
	return pick(g.Rand,
		fmt.Sprintf("item >= %d", 1+g.IntN(20)), "label <> 1", "region LIKE 'e%'", "score IS NOT NULL",
		fmt.Sprintf("day > DATE '%s'", g.start.AddDate(0, 0, g.IntN(3)).Format(time.DateOnly)), "k IS NOT NULL", "k2 <= 2", "(label = 1 OR region = 'us')")
}

// chooseDistinct decides how repeated training rows are dropped, if at all.
func (g *generator) chooseDistinct() {
	if !g.chance(6) {
		return
	}
	d := &dataset.Distinct{By: []string{"k"}, Keep: pick(g.Rand, dataset.KeepFirst, dataset.KeepLast)}
	if g.chance(2) {
		d.By = append(d.By, "label")
	}
	if g.chance(2) {
		d.OrderBy = []dataset.OrderBy{{Column: "score", Descending: g.chance(2)}}
	}
	if g.chance(2) || g.alignment.training != "" {
		d.Scope = dataset.ScopePartition
	}
	g.Dataset.Training.Distinct = d
}

// query chooses what is asked for; the column item is always asked for, as it
// tells training rows apart.
func (g *generator) query() {
	lanes := 1 + g.IntN(4)
	q := dataset.Query{Dataset: g.Name, Lanes: lanes, BatchRows: lanes * (1 + g.IntN(12)), Shard: dataset.Shard{Index: dataset.AllShards, Of: 1}}
	if g.chance(3) {
		q.Order, q.Seed, q.Epoch = dataset.Shuffled, g.Int64N(9), g.Int64N(3)
	}
	var filters []string
	if g.chance(4) {
		filters = append(filters, g.trainingFilter())
	}
	if late := g.lateFilters(); len(late) > 0 && g.chance(3) {
		filters = append(filters, pick(g.Rand, late...))
	}
	q.Filter = strings.Join(filters, " AND ")
	if g.chance(6) {
		from, to := float64(g.IntN(17))/16, g.Float64()
		q.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: from, To: to}, By: dataset.SampleByRequest, Rate: 1}
		if len(g.Dataset.Key) == 1 && g.chance(2) {
			q.Sample.By = dataset.SampleByKey
		}
	}
	if g.chance(3) {
		q.Columns = g.queryColumns()
	}
	if g.chance(3) {
		q.Wire = dataset.WireIndexed
	}
	g.Query = q
}

// lateFilters are conditions that can be asked only after the joins.
func (g *generator) lateFilters() []string {
	var filters []string
	for i, entry := range g.Dataset.Staging {
		if entry.MatchedAs != "" {
			filters = append(filters, entry.MatchedAs+" = TRUE", entry.MatchedAs+" = FALSE")
		}
		for _, column := range entry.Columns {
			switch column.Output() {
			case fmt.Sprintf("s%d_v", i):
				filters = append(filters, fmt.Sprintf("%s >= 4", column.Output()), fmt.Sprintf("(%s IS NULL OR item < 9)", column.Output()))
			case "label":
				filters = append(filters, "label = 1", "label IS NOT NULL")
			}
		}
	}
	return filters
}

// queryColumns asks for some of the columns, in any order, some of them
// renamed or shortened.
func (g *generator) queryColumns() []dataset.Column {
	columns := []dataset.Column{{Column: "item"}}
	for _, name := range []string{"tags", "k", "score", "label", "ts"} {
		if g.chance(2) {
			columns = append(columns, dataset.Column{Column: name})
		}
	}
	for _, entry := range g.Dataset.Staging {
		for _, column := range entry.Columns {
			if g.chance(2) && !slices.Contains(strings.Fields(trainingNames), column.Output()) {
				columns = append(columns, dataset.Column{Column: column.Output()})
			}
		}
		if entry.MatchedAs != "" && g.chance(2) {
			columns = append(columns, dataset.Column{Column: entry.MatchedAs})
		}
	}
	for i := range columns {
		if strings.HasSuffix(columns[i].Column, "_version") && g.chance(2) {
			columns[i].As = "double"
		}
		if column := columns[i].Column; (column == "tags" || strings.HasSuffix(column, "_t") || strings.HasSuffix(column, "_last")) && g.chance(2) {
			columns[i].First = 1 + g.IntN(2)
		}
		if columns[i].Column == "label" && g.chance(2) {
			columns[i].As = "double"
		}
		if g.chance(5) && columns[i].Column != "item" {
			columns[i].Name = "renamed_" + columns[i].Column
		}
	}
	if g.chance(4) {
		columns = append(columns, dataset.Column{Column: "tags", Name: "tags_end", Last: 1}, dataset.Column{Column: "label", Name: "label_again"})
	}
	g.Shuffle(len(columns), func(a, b int) { columns[a], columns[b] = columns[b], columns[a] })
	return columns
}
