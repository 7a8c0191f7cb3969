package resolve

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// RequestTable is the table number of the indexed column with the training columns that are
// constant within a request.
const RequestTable = -2

// requestName is the name of the indexed column for the columns of a request. No staging entry may
// have this name.
const requestName = "request"

// Indexed is one column of the indexed wire. It contains outputs that are sent once for each
// distinct row.
type Indexed struct {
	Table   int // staging entry, or RequestTable
	Name    string
	Outputs []int // positions among the stream's outputs, ascending
	// Apart reports that the outputs are sent as separate columns in every form, because one of
	// them is a category.
	Apart bool
}

// Indexed returns the possible indexed columns for outputs in plain order. The result has the order
// of indexed columns in a batch.
func (r *Relation) Indexed(outputs []Output) []Indexed {
	var all []Indexed
	add := func(table int, name string, wanted func(Output) bool) {
		one := Indexed{Table: table, Name: name}
		for i, o := range outputs {
			if wanted(o) {
				one.Outputs = append(one.Outputs, i)
				one.Apart = one.Apart || o.Category
			}
		}
		if one.Outputs != nil {
			all = append(all, one)
		}
	}
	add(RequestTable, requestName, func(o Output) bool { return o.Request })
	for i, s := range r.Staging {
		add(i, s.Name, func(o Output) bool { return o.Table == i && !o.Promoted })
	}
	return all
}

// Place is a column of a stream's batches.
type Place struct {
	Output  int // position among the outputs; -1 for an indexed column
	Indexed int // number of the indexed column; -1 for a column that is not indexed
}

// Places returns the columns of a stream's batches if some columns are indexed: first the training
// columns, then the columns of requests, then the columns of each staging entry, all in plain
// order.
func Places(outputs []Output, indexed []Indexed) []Place {
	var places, staging []Place
	begun := make([]bool, len(indexed))
	for i, o := range outputs {
		place := Place{Output: i, Indexed: slices.IndexFunc(indexed, func(x Indexed) bool { return slices.Contains(x.Outputs, i) })}
		if place.Indexed >= 0 {
			if begun[place.Indexed] {
				continue
			}
			begun[place.Indexed] = true
			place.Output = -1
		}
		if o.Table == TrainingTable && place.Indexed < 0 {
			places = append(places, place)
		} else {
			staging = append(staging, place)
		}
	}
	return append(places, staging...)
}

// Schema returns the stream's schema for outputs in plain order and a wire form. For wire: auto, it
// returns the schema of plain batches, although streams may then index columns. In an indexed form,
// each staging table with outputs is one column, a dictionary of structs that has the name of the
// entry. The columns that are constant within a request are one such column with the name "request"
// (docs/spec/wire.md). In a grouped form, columns that are not constant within a request are lists.
// It is Invalid if another column has the name of an indexed column.
func (r *Relation) Schema(outputs []Output, wire dataset.Wire) (*arrow.Schema, error) {
	indexed, err := wire.Indexed()
	if err != nil {
		return nil, err
	}
	if wire.Grouped() {
		if i := slices.IndexFunc(outputs, func(o Output) bool { return o.Category }); i >= 0 {
			return nil, notCategory(wire, outputs[i].Name)
		}
		return r.groupedSchema(outputs), nil
	}
	if !indexed {
		return Schema(outputs), nil
	}
	columns := r.Indexed(outputs)
	if wire.Auto() {
		columns = slices.DeleteFunc(columns, func(x Indexed) bool { return x.Apart })
	} else if i := slices.IndexFunc(columns, func(x Indexed) bool { return x.Apart }); i >= 0 {
		k := slices.IndexFunc(columns[i].Outputs, func(at int) bool { return outputs[at].Category })
		return nil, notCategory(wire, outputs[columns[i].Outputs[k]].Name)
	}
	if err := distinctNames(outputs, columns, wire); err != nil {
		return nil, err
	}
	if wire.Auto() {
		return Schema(outputs), nil
	}
	return IndexedSchema(outputs, columns), nil
}

// notCategory returns the error for a category in a wire form that sends the column's values once
// for several rows, or in lists.
func notCategory(wire dataset.Wire, column string) error {
	return fault.InvalidField("wire", "%s does not send column %q once in each row, so it cannot have as: category", wire, column).
		WithRemedy("omit as: category, or use wire: plain or auto")
}

// distinctNames returns an error if an indexed column has the name of another column, or if it
// could be indexed under that name once the form of a stream is decided.
func distinctNames(outputs []Output, columns []Indexed, wire dataset.Wire) error {
	for _, x := range columns {
		for i, o := range outputs {
			beside := wire.Auto() || o.Table == TrainingTable && !o.Request
			if o.Name != x.Name || !beside || slices.Contains(x.Outputs, i) {
				continue
			}
			what := "the staging table " + x.Name
			if x.Table == RequestTable {
				what = "the columns of a request, " + x.Name
			}
			return fault.InvalidField("wire", "%s names a column after %s, and another column has that name", wire, what).
				WithRemedy("give the column another name in the query's columns, or the staging entry one in the dataset")
		}
	}
	return nil
}

// IndexedSchema returns the schema of batches with some indexed columns.
func IndexedSchema(outputs []Output, indexed []Indexed) *arrow.Schema {
	var fields []arrow.Field
	for _, at := range Places(outputs, indexed) {
		if at.Indexed < 0 {
			fields = append(fields, outputs[at.Output].arrowField())
			continue
		}
		x := indexed[at.Indexed]
		inside := make([]arrow.Field, len(x.Outputs))
		for k, i := range x.Outputs {
			inside[k] = outputs[i].arrowField()
		}
		fields = append(fields, arrow.Field{Name: x.Name, Type: &arrow.DictionaryType{
			IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(inside...),
		}})
	}
	return arrow.NewSchema(fields, nil)
}

// groupedSchema returns the schema of batches with one row for each request.
func (r *Relation) groupedSchema(outputs []Output) *arrow.Schema {
	once := r.OncePerRequest(outputs)
	fields := make([]arrow.Field, len(outputs))
	for i, o := range outputs {
		if fields[i] = o.arrowField(); !once[i] {
			item := fields[i]
			item.Name = "element"
			fields[i] = arrow.Field{Name: o.Name, Type: arrow.ListOfField(item)}
		}
	}
	return arrow.NewSchema(fields, nil)
}
