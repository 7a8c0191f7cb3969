package scenario

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// chooseComputed adds computed columns to the dataset, to the query's columns and to dense columns.
// It uses a separate random source, like chooseWire.
func (g *generator) chooseComputed(seed uint64) {
	g.Rand = rand.New(rand.NewPCG(seed, 29))
	if !g.chance(3) {
		return
	}
	for i := range 1 + g.IntN(4) {
		g.computedColumn(fmt.Sprintf("computed%d", i))
	}
	g.Layouts["computed columns"]++
}

// computedColumn adds one computed column.
func (g *generator) computedColumn(name string) {
	offered := newOracle(g.Case).offered
	for _, c := range slices.Concat(g.Query.Columns, packedBy(g.Query.Dense)) {
		if c.Expr != "" { // expressions do not name the computed columns of a query
			delete(offered, c.Column)
		}
	}
	f, ok := g.formula(offered)
	if !ok {
		return
	}
	own := g.Query.Columns != nil && g.chance(3)
	column := dataset.Column{Column: name}
	if own {
		column.Expr = f.text()
	} else {
		g.Dataset.Computed = append(g.Dataset.Computed, dataset.Computed{Column: name, Expr: f.text()})
	}
	dt := f.typeOf(offered)
	number := dt.ID() == arrow.INT32 || dt.ID() == arrow.INT64 || dt.ID() == arrow.FLOAT32
	if n := len(g.Query.Dense); n > 0 && number && g.chance(2) {
		packed := &g.Query.Dense[g.IntN(n)]
		packed.Columns = append(packed.Columns, column)
		return
	}
	if g.Query.Columns != nil && (own || !g.chance(4)) {
		g.shape(&column, dt)
		g.Query.Columns = append(g.Query.Columns, column)
	}
}

// formula makes a random formula over columns.
func (g *generator) formula(offered map[string]arrow.DataType) (formula, bool) {
	var plain []string // columns of types that expressions support
	byType := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		switch dt := offered[name]; dt.ID() {
		case arrow.INT32, arrow.INT64, arrow.BOOL, arrow.STRING, arrow.DATE32, arrow.FLOAT32, arrow.FLOAT64:
			plain = append(plain, name)
			byType[dt.String()] = append(byType[dt.String()], name)
		default:
		}
	}
	f := formula{form: pick(g.Rand, formSum, formRatio, formRatio, formRatio, formChoice, formChoice, formUnequal, formOf)}
	if g.chance(24) {
		f.form = formQuotient
	}
	first := pick(g.Rand, plain...)
	switch f.form {
	case formSum, formQuotient, formRatio:
		numbers := byType[pick(g.Rand, "int32", "int64")]
		if len(numbers) == 0 {
			return f, false
		}
		f.args = []string{pick(g.Rand, numbers...), pick(g.Rand, numbers...)}
	case formUnequal: // floats may be NaN or -0, whose equality is another test's subject
		for offered[first].ID() == arrow.FLOAT32 || offered[first].ID() == arrow.FLOAT64 {
			first = pick(g.Rand, plain...)
		}
		f.args = []string{first, pick(g.Rand, byType[offered[first].String()]...)}
	case formChoice:
		f.args = []string{first, pick(g.Rand, byType[offered[first].String()]...)}
	default:
		f.args = []string{first}
	}
	return f, true
}
