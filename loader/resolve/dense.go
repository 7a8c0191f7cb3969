package resolve

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Dense is what a dense column is packed of: columns of numbers, side by side in
// each row.
type Dense struct {
	Columns []Output
	Fill    *float32 // in the place of nulls; nil: a null is an error
}

// arrow returns the column's type: rows of float32, one after the other, without
// nulls.
func (d *Dense) arrow() arrow.DataType {
	return arrow.FixedSizeListOfField(int32(len(d.Columns)), arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32})
}

// Leaves returns the columns of tables that outputs are made of, dense ones taken
// apart.
func Leaves(outputs []Output) []Output {
	var all []Output
	for _, o := range outputs {
		if o.Dense == nil {
			all = append(all, o)
		} else {
			all = append(all, o.Dense.Columns...)
		}
	}
	return all
}

// Choose returns the outputs that a query asks for: those of Select, and dense
// columns behind the others of their table. What is packed is not sent beside, save
// where columns name it. A dense column of several tables, or of columns that are
// constant within a request and others, is a training column.
func (r *Relation) Choose(s dataset.Selection) ([]Output, error) {
	outputs, err := r.Select(s.Columns)
	if err != nil || len(s.Dense) == 0 {
		return outputs, err
	}
	if s.Columns == nil {
		outputs = slices.DeleteFunc(slices.Clone(outputs), func(o Output) bool {
			return slices.ContainsFunc(s.Dense, func(d dataset.Dense) bool {
				return slices.ContainsFunc(d.Columns, func(c dataset.Column) bool { return c.Column == o.Name })
			})
		})
	}
	var faults []fault.Field
	known := names(r.Outputs)
	for _, d := range s.Dense {
		at := "dense." + d.Name
		if slices.ContainsFunc(outputs, func(o Output) bool { return o.Name == d.Name }) {
			faults = append(faults, fault.Field{Field: at, Message: fmt.Sprintf("a column is named %q already; name the dense column otherwise", d.Name)})
		}
		packed, wrong := r.pack(d, known, at)
		faults = append(faults, wrong...)
		outputs = append(outputs, packed)
	}
	if err := fault.Fields(faults); err != nil {
		return nil, err
	}
	slices.SortStableFunc(outputs, func(a, b Output) int { return a.Table - b.Table })
	return outputs, nil
}

// pack makes the output of a dense column.
func (r *Relation) pack(d dataset.Dense, known []string, at string) (Output, []fault.Field) {
	out := Output{Name: d.Name, Table: TrainingTable, Dense: &Dense{Fill: d.Fill}}
	var faults []fault.Field
	for i, c := range d.Columns {
		path := fmt.Sprintf("%s.columns[%d]", at, i)
		if d.Fill == nil { // which has the short form
			path = fmt.Sprintf("%s[%d]", at, i)
		}
		o, wrong := r.selected(c, known, path)
		faults = append(faults, wrong...)
		if o == nil || len(wrong) > 0 {
			continue
		}
		if !number(o.Type()) {
			faults = append(faults, fault.Field{Field: path, Message: fmt.Sprintf(
				"column %q is %s: dense packs integers, floats, decimals and booleans; leave it out, or ask for it in columns", c.Column, o.Type())})
		}
		out.Dense.Columns = append(out.Dense.Columns, *o)
	}
	if of := out.Dense.Columns; len(of) > 0 {
		out.Request = !slices.ContainsFunc(of, func(o Output) bool { return !o.Request })
		if !slices.ContainsFunc(of, func(o Output) bool { return o.Table != of[0].Table }) {
			out.Table = of[0].Table
		}
	}
	return out, faults
}
