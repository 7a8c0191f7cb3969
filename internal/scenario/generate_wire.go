package scenario

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// chooseWire chooses request-level columns, wire: auto and dense columns. It uses a separate random
// source, so that the rest of a case does not depend on these choices.
func (g *generator) chooseWire(seed uint64) {
	g.Rand = rand.New(rand.NewPCG(seed, 17))
	if g.chance(3) {
		g.chooseRequestLevel()
	}
	if g.chance(6) {
		g.Query.Wire = dataset.WireAuto
	}
	if g.chance(4) {
		g.chooseDense()
	}
}

// chooseKeys adds the keys of some entries to their columns and to the query's. It uses a separate
// random source, like chooseWire.
func (g *generator) chooseKeys(seed uint64) {
	g.Rand = rand.New(rand.NewPCG(seed, 23))
	for i := range g.Dataset.Staging {
		entry := &g.Dataset.Staging[i]
		if entry.Columns == nil || !entry.Join.Adds() || !g.chance(4) {
			continue
		}
		for _, key := range entry.Key {
			column := dataset.Column{Column: key.Staging, Name: entry.Name + "_" + key.Staging}
			entry.Columns = slices.Insert(entry.Columns, g.IntN(len(entry.Columns)+1), column)
			if g.Query.Columns != nil {
				g.Query.Columns = append(g.Query.Columns, dataset.Column{Column: column.Name})
			}
		}
		g.Layouts["a key of a staging table, shown"]++
	}
}

// chooseRequestLevel declares some training columns request-level, and sets their values
// in all rows of a request to those of its first row.
func (g *generator) chooseRequestLevel() {
	var overlaid []string
	o := newOracle(g.Case)
	for i := range g.Staging {
		for _, column := range o.shown(i) {
			overlaid = append(overlaid, column.Output())
		}
	}
	for _, name := range append([]string{"k", "region", "tags", "score", "part"}, trainingPayload...) {
		if !slices.Contains(overlaid, name) && g.chance(2) {
			g.Dataset.Training.RequestLevel = append(g.Dataset.Training.RequestLevel, name)
		}
	}
	if g.Dataset.Training.RequestLevel == nil {
		return
	}
	g.Layouts["request-level columns"]++
	g.Query.Wire = pick(g.Rand, dataset.WireIndexed, dataset.WireIndexed, dataset.WireAuto, dataset.WirePlain)
	names := namesOf(g.Training.Header)
	at := func(wanted []string) []int {
		indices := make([]int, len(wanted))
		for i, name := range wanted {
			indices[i] = slices.Index(names, name)
		}
		return indices
	}
	key, constant := at(g.Dataset.Key), at(g.Dataset.Training.RequestLevel)
	first := map[string][]string{}
	for _, c := range g.Training.Commits {
		for i, line := range c.Lines {
			words := Words(line)
			var request []string
			for _, k := range key {
				request = append(request, words[k])
			}
			if slices.Contains(request, null) {
				continue
			}
			of := strings.Join(request, " ")
			if first[of] == nil {
				first[of] = words
			}
			for _, k := range constant {
				words[k] = first[of][k]
			}
			c.Lines[i] = strings.Join(words, " ")
		}
	}
}

// chooseDense packs numeric columns of any tables into one or two dense columns.
func (g *generator) chooseDense() {
	offered := newOracle(g.Case).offered
	var numbers []string
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		switch offered[name].ID() {
		case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.BOOL, arrow.DECIMAL128:
			if name != "item" {
				numbers = append(numbers, name)
			}
		case arrow.FLOAT64: // some values are beyond float32
			if name == "score" || g.chance(16) {
				numbers = append(numbers, name)
			}
		default:
		}
	}
	for _, name := range []string{"packed", "dense"}[g.IntN(2):] {
		one := dataset.Dense{Name: name, Fill: new(pick(g.Rand, 0, float32(-1.5)))}
		if g.chance(16) {
			one.Fill = nil
		}
		for range 1 + g.IntN(4) {
			column := dataset.Column{Column: pick(g.Rand, numbers...)}
			g.shape(&column, offered[column.Column])
			one.Columns = append(one.Columns, column)
		}
		g.Query.Dense = append(g.Query.Dense, one)
	}
	g.Layouts["dense"]++
}
