package scenario

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// result is a column of the result: a selected column or a dense column.
type result struct {
	dataset.Column
	dense *dataset.Dense
}

// results returns the columns of the plain result. Dense columns follow the other columns
// of their table.
func (o *oracle) results() []result {
	var all []result
	for i, names := range o.inputs() {
		for _, column := range o.asked(names) {
			all = append(all, result{Column: column})
		}
		for k, d := range o.Query.Dense {
			if o.tableOf(d) == i {
				all = append(all, result{dense: &o.Query.Dense[k]})
			}
		}
	}
	return all
}

// tableOf returns the index of the input that has all the columns that a dense column packs. If no
// single input has all of them, it returns 0, the training table.
func (o *oracle) tableOf(d dataset.Dense) int {
	return max(0, slices.IndexFunc(o.inputs(), func(names []string) bool {
		return !slices.ContainsFunc(d.Columns, func(c dataset.Column) bool { return !slices.Contains(names, c.Column) })
	}))
}

// asked returns the columns of an input that are sent separately.
func (o *oracle) asked(names []string) []dataset.Column {
	var columns []dataset.Column
	if o.Query.Columns != nil {
		for _, column := range o.Query.Columns {
			if slices.Contains(names, column.Column) {
				columns = append(columns, column)
			}
		}
		return columns
	}
	for _, name := range names {
		if !slices.ContainsFunc(o.packed(), func(c dataset.Column) bool { return c.Column == name }) {
			columns = append(columns, dataset.Column{Column: name})
		}
	}
	return columns
}

// packed returns the columns of all dense columns.
func (o *oracle) packed() []dataset.Column {
	return packedBy(o.Query.Dense)
}

// describe adds a column to the expectation.
func (o *oracle) describe(r result) {
	request := func(c dataset.Column) bool {
		return !slices.ContainsFunc(o.leaves(c.Column), func(name string) bool { return !slices.Contains(o.Dataset.Training.RequestLevel, name) })
	}
	if r.dense == nil {
		o.Columns = append(o.Columns, r.Output())
		o.Types = append(o.Types, shapedType(o.offered[r.Column.Column], r.Column))
		o.Request = append(o.Request, request(r.Column))
		return
	}
	o.Columns = append(o.Columns, r.dense.Name)
	o.Types = append(o.Types, arrow.FixedSizeListOfNonNullable(int32(len(r.dense.Columns)), arrow.PrimitiveTypes.Float32))
	o.Request = append(o.Request, !slices.ContainsFunc(r.dense.Columns, func(c dataset.Column) bool { return !request(c) }))
}

// valueOf returns the value of a column for a joined row.
func (o *oracle) valueOf(r result, joined cells) any {
	one := func(c dataset.Column) any { return shaped(o.offered[c.Column], o.cell(c.Column, joined), c) }
	if r.dense == nil {
		return one(r.Column)
	}
	var values []any
	for _, c := range r.dense.Columns {
		v := one(c)
		if v == nil && r.dense.Fill != nil {
			v = float64(*r.dense.Fill)
			o.Seen["dense fill"]++
		}
		if v == nil {
			o.Fails = "a null has no fill"
			o.Seen["dense null"]++
			return nil
		}
		f, ok := v.(float64)
		if ok {
			v = float64(float32(f))
		} else {
			v = castValue(shapedType(o.offered[c.Column], c), v, arrow.PrimitiveTypes.Float32)
		}
		if ok && math.IsInf(v.(float64), 0) && !math.IsInf(f, 0) {
			o.Fails = "a number is beyond float32"
			return nil
		}
		values = append(values, v)
	}
	return values
}

// order returns, for each column of a batch, its index in a batch that is not indexed. If
// request-level columns are indexed, they follow the other training columns.
func (e Expectation) order(schema *arrow.Schema) []int {
	var first, request, staging []int
	indexed := false
	for _, f := range schema.Fields() {
		indexed = indexed || f.Name == "request" && f.Type.ID() == arrow.DICTIONARY
	}
	for i := range e.Columns {
		switch {
		case i >= e.Own:
			staging = append(staging, i)
		case indexed && e.Request[i]:
			request = append(request, i)
		default:
			first = append(first, i)
		}
	}
	return slices.Concat(first, request, staging)
}

// permuted returns values in another order.
func permuted[T any](values []T, order []int) []T {
	out := make([]T, len(order))
	for i, k := range order {
		out[i] = values[k]
	}
	return out
}
