package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/loader/dataset"
)

// unlimited is a maximum amplification that small tables cannot reach.
const unlimited = 1e6

// Generate makes a random case with any layout and rules from a seed. n and m are the
// bucket counts of the training table and the first staging table, if they are
// bucketed.
func Generate(seed uint64, n, m int) *Case {
	r := rand.New(rand.NewPCG(seed, 11))
	g := &generator{
		Rand: r, Case: &Case{Name: fmt.Sprintf("seed-%d", seed), ScanRows: 1 + r.IntN(40), Layouts: Coverage{}},
		kind: pick(r, keyKinds...), second: pick(r, secondKinds...),
		start: pick(r, time.Date(2024, 2, 27, 20, 0, 0, 0, time.UTC), time.Date(1969, 12, 30, 22, 0, 0, 0, time.UTC)),
	}
	g.makeKeys(1 + g.IntN(16))
	g.Layouts["key "+g.kind.training]++
	g.Layouts["second key "+g.second.kind]++
	g.shared = pick(r, payloadKinds...)
	g.timed = strings.HasPrefix(g.shared, "timestamp") || g.shared == "date" || g.shared == "long"
	g.payload = g.columns("p", len(trainingPayload)) + " x:" + g.shared
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
	if g.chance(3) {
		g.Dataset.Training.Filter = g.filter(columnsOf(g.Training)).Parsed()
	}
	g.query()
	g.chooseKeys(seed)
	g.chooseWire(seed)
	g.chooseComputed(seed)
	g.steps(rand.New(rand.NewPCG(seed, 17))) // a separate random source, so that other choices stay the same
	return g.Case
}

type generator struct {
	*rand.Rand
	*Case
	kind      keyKind
	second    secondKind // kind of the second key column
	keys      []string   // values of the first key column, as words
	shared    string     // type of the column x that every table has
	timed     bool       // whether x is a time that rules may use, so that no overlay replaces it
	payload   string     // header of the training table's columns of random types
	counts    []int      // bucket counts of the training table and of each staging table
	start     time.Time  // earliest time
	coarse    bool       // whether there are few different times
	parted    bool       // whether tables are often partitioned by values of the key
	alignment alignment  // zero: no entry is aligned
}

// chance returns true with probability 1/n.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// chooseDistinct chooses whether and how repeated training rows are dropped.
func (g *generator) chooseDistinct() {
	if !g.chance(6) {
		return
	}
	d := &dataset.Distinct{By: []string{"k"}, Keep: pick(g.Rand, dataset.KeepFirst, dataset.KeepLast)}
	if g.chance(2) {
		d.By = append(d.By, "label")
	}
	fields, _ := Fields(g.payload) // cannot fail: the generator wrote the header
	ordered := []string{"score"}
	for _, f := range fields {
		switch f.Type.ID() {
		case arrow.LIST, arrow.MAP, arrow.STRUCT:
			continue
		case arrow.FLOAT32, arrow.FLOAT64, arrow.BOOL: // these can order rows, but do not distinguish them
		default:
			if f.Name != "x" && g.chance(6) {
				d.By = append(d.By, f.Name)
			}
		}
		if f.Name != "x" && !slices.Contains(d.By, f.Name) {
			ordered = append(ordered, f.Name)
		}
	}
	if g.chance(2) {
		d.OrderBy = []dataset.OrderBy{{Column: pick(g.Rand, ordered...), Descending: g.chance(2)}}
	}
	if g.chance(2) || g.alignment.training != "" {
		d.Scope = dataset.ScopePartition
	}
	g.Dataset.Training.Distinct = d
}

// query chooses the query. The query always has the column `item`, which identifies training rows.
func (g *generator) query() {
	lanes := 1 + g.IntN(4)
	q := dataset.Query{Rows: dataset.Rows{Dataset: g.Name, Lanes: lanes}, Reading: dataset.Reading{BatchRows: lanes * (1 + g.IntN(12)), Shard: dataset.Shard{Index: dataset.AllShards, Of: 1}}}
	if g.chance(3) {
		q.Order, q.Seed, q.Epoch = dataset.Shuffled, g.Int64N(9), g.Int64N(3)
		q.Shuffle = pick(g.Rand, "", dataset.ShuffleSplits, dataset.ShuffleRequests, dataset.ShuffleRows)
		if q.Shuffle != dataset.ShuffleSplits && g.chance(2) {
			q.ShuffleWindow, q.ShuffleParts = 1+g.Int64N(40), g.Int64N(12)
			if g.Dataset.Training.Distinct != nil {
				q.ShuffleParts = 0
			}
		}
	}
	if g.chance(2) {
		q.Filter = g.queryFilter().Parsed()
	}
	if g.chance(6) {
		from, to := float64(g.IntN(17))/16, g.Float64()
		q.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: from, To: to}, By: dataset.SampleByRequest, Rate: 1}
		if len(g.Dataset.Key) == 1 && g.chance(2) {
			q.Sample.By = dataset.SampleByKey
		}
	}
	if g.chance(8) {
		if q.Sample == nil {
			q.Sample = &dataset.Sample{}
		}
		q.Sample.Rate, q.Sample.Where = pick(g.Rand, 1, noRate), g.filter(columnsOf(g.Training)).Parsed()
	}
	if g.chance(3) {
		q.Columns = g.queryColumns()
	}
	if g.chance(3) {
		q.Wire = dataset.WireIndexed
	}
	g.reading(&q)
	g.Query = q
}

// steps chooses the number of DataLoader workers, the tail, and batches by requests.
func (g *generator) steps(r *rand.Rand) {
	if r.IntN(4) == 0 {
		g.Workers = 2 + r.IntN(3)
	}
	g.Drops = r.IntN(4) == 0
	if q := &g.Query; r.IntN(5) == 0 && q.Shuffle != dataset.ShuffleRows {
		q.BatchRequests, q.BatchRows, q.GlobalBatchRows, q.Limit = q.Lanes*(1+r.IntN(6)), 0, 0, 0
		if r.IntN(2) == 0 {
			q.Wire = dataset.WireGrouped
		}
	}
}

// reading chooses batch sizes, endpoints and limits.
func (g *generator) reading(q *dataset.Query) {
	if g.chance(4) {
		q.BatchRows, q.GlobalBatchRows = 0, q.BatchRows
	}
	switch {
	case q.Lanes == 1 && (!q.Order.IsShuffled() || q.Shuffle == dataset.ShuffleSplits) && g.chance(2):
		q.Endpoints = dataset.EndpointsSplits
	case g.chance(3):
		q.Limit = 1 + g.Int64N(60)
	}
}

// noRate is a sampling rate that keeps no row of any test table.
const noRate = 1e-12

// queryFilter returns conditions on columns of the training table, on columns that joins add or
// replace, or on both.
func (g *generator) queryFilter() *cell.Filter {
	training := columnsOf(g.Training)
	var late []filterColumn
	o := &oracle{Case: g.Case, types: typesOf(g.Training.Header)}
	for i, t := range g.Staging {
		stored := columnsOf(t)
		o.headers = append(o.headers, namesOf(t.Header))
		for _, shown := range o.shown(i) {
			at := slices.IndexFunc(stored, func(c filterColumn) bool { return c.name == shown.Column })
			c := filterColumn{name: shown.Output(), dt: shapedType(stored[at].dt, shown)}
			if c.dt == stored[at].dt {
				c.values = stored[at].values
			}
			late = append(slices.DeleteFunc(late, func(old filterColumn) bool { return old.name == c.name }), c)
		}
		if name := g.Dataset.Staging[i].MatchedAs; name != "" {
			late = append(late, filterColumn{name: name, dt: arrow.FixedWidthTypes.Boolean})
		}
	}
	var terms []*cell.Filter
	if g.chance(2) {
		terms = append(terms, g.filter(training))
	}
	if g.chance(2) && len(late) > 0 {
		terms = append(terms, g.filter(late))
	}
	if len(terms) == 0 || g.chance(3) {
		terms = append(terms, g.filter(append(training, late...)))
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return &cell.Filter{Op: cell.OpAnd, Terms: terms}
}

// queryColumns returns some of the columns, in any order, some of them renamed or
// truncated.
func (g *generator) queryColumns() []dataset.Column {
	offered := newOracle(g.Case).offered
	columns := []dataset.Column{{Column: "item"}}
	for _, name := range append([]string{"tags", "k", "score", "label", "ts", "x"}, trainingPayload...) {
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
		if name := columns[i].Column; name == "x" || name == "ts" || slices.Contains(trainingPayload, name) || strings.Contains(name, "_p") {
			g.shape(&columns[i], offered[name])
		}
		if g.chance(5) && columns[i].Column != "item" {
			columns[i].Name = "renamed_" + columns[i].Column
		}
	}
	if g.chance(4) {
		columns = append(columns, dataset.Column{Column: "tags", Name: "tags_end", Last: 1, As: pick(g.Rand, "", "int", "double")}, dataset.Column{Column: "label", Name: "label_again"})
	}
	g.Shuffle(len(columns), func(a, b int) { columns[a], columns[b] = columns[b], columns[a] })
	return columns
}
