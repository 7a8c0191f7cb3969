package resolve

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Dense describes a dense column. Its parts are columns of numbers, which are packed side by side in
// each row.
type Dense struct {
	Fill *float32 // replaces nulls; nil: a null is an error
}

// packedType returns the type of a dense column: rows of float32, without nulls.
func packedType(columns int) arrow.DataType {
	return arrow.FixedSizeListOfField(int32(columns), arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32})
}

// Leaves returns the outputs that are values of tables: instead of a dense or computed output, the
// leaves of its parts.
func Leaves(outputs []Output) []Output {
	var all []Output
	for _, o := range outputs {
		if o.Made() {
			all = append(all, Leaves(o.Parts)...)
		} else {
			all = append(all, o)
		}
	}
	return all
}

// Choose returns the outputs of a query: the outputs of Select, and after the outputs of each table
// its dense columns. Packed columns are sent separately only if the query's columns name them. A
// dense column counts as a training column if its columns are from several tables, or if only some
// of them are constant within a request.
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
	known := r.index()
	for _, d := range s.Dense {
		if len(faults) >= maxFaults {
			break
		}
		at := "dense." + d.Name
		if slices.ContainsFunc(outputs, func(o Output) bool { return o.Name == d.Name }) {
			faults = append(faults, fault.Field{Field: at, Message: fmt.Sprintf("there is already a column %q; give the dense column another name", d.Name)})
		}
		packed, wrong := r.pack(d, known, at)
		faults = append(faults, wrong...)
		outputs = append(outputs, packed)
	}
	if err := fault.Fields(faults); err != nil {
		return nil, err
	}
	sortByTable(outputs)
	return outputs, nil
}

// pack returns the output of a dense column.
func (r *Relation) pack(d dataset.Dense, known *outputIndex, at string) (Output, []fault.Field) {
	out := Output{Name: d.Name, Dense: &Dense{Fill: d.Fill}}
	var faults []fault.Field
	for i, c := range d.Columns {
		if len(faults) >= maxFaults {
			faults = append(faults, fault.Field{Field: at, Message: fmt.Sprintf("%s more were not checked", fault.Count(len(d.Columns)-i, "column"))})
			break
		}
		path := fmt.Sprintf("%s.columns[%d]", at, i)
		if d.Fill == nil { // the dataset uses the short form of a dense column
			path = fmt.Sprintf("%s[%d]", at, i)
		}
		o, wrong := r.selected(c, known, path)
		faults = append(faults, wrong...)
		if o == nil || len(wrong) > 0 {
			continue
		}
		if !number(o.Type()) {
			faults = append(faults, fault.Field{Field: path, Message: fmt.Sprintf(
				"column %q is %s: dense packs integers, floats, decimals and booleans; omit it, or name it in columns", c.Column, o.Type())})
		}
		out.Parts = append(out.Parts, *o)
	}
	out.place()
	return out, faults
}
