package resolve

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Computed describes a computed column. The Parts of its output are the columns that the expression
// names, in the order of Expr.Columns.
type Computed struct {
	Expr    *expr.ValueExpr // names only columns of tables, by their output names; expressions of other computed columns are inserted
	Bound   *expr.Computed  // Expr with its types
	Text    string          // the expression as the dataset or the query has it
	Dataset string          // its name, for errors; "" for an inline dataset
}

// computed adds the computed columns of a dataset to the relation: each after the other outputs of
// its table.
func (b *binder) computed(r *Relation) {
	before, known := len(b.faults), r.index()
	for i, c := range r.Dataset.Computed {
		if len(b.faults)-before >= maxFaults {
			b.fault("computed", "", "%s more were not checked", fault.Count(len(r.Dataset.Computed)-i, "column"))
			break
		}
		o, faults := r.compute(known, c.Column, c.Expr, fmt.Sprintf("computed[%d].expr", i))
		b.faults = append(b.faults, faults...)
		if o == nil {
			continue
		}
		if other := known.output(c.Column); other != nil {
			b.fault(fmt.Sprintf("computed[%d].column", i), "", "%q is the name of a column of %s; choose another", c.Column, r.origin(*other))
			continue
		}
		r.Outputs = append(r.Outputs, *o)
		known.add(*o)
	}
	sortByTable(r.Outputs)
}

// computedFor returns the output of a column that a query computes, or nil if there are faults. The
// name must not be one of the dataset's columns, since filters could then mean either.
func (r *Relation) computedFor(c dataset.Column, known *outputIndex, at string) (*Output, []fault.Field) {
	if known.output(c.Column) != nil {
		return nil, []fault.Field{{Field: at, Message: fmt.Sprintf("the dataset has a column %q; give the computed column another name", c.Column)}}
	}
	return r.compute(known, c.Column, c.Expr, fault.FieldPath(at, "expr"))
}

// origin names the origin of an output for errors.
func (r *Relation) origin(o Output) string {
	if o.Computed != nil {
		return "the dataset's computed columns"
	}
	return r.tableName(o.Table)
}

// compute returns the output of an expression, which may name all outputs of the index. It returns nil if there are faults.
func (r *Relation) compute(known *outputIndex, name, text, at string) (*Output, []fault.Field) {
	parsed, err := expr.ParseValue(text)
	if err != nil {
		return nil, faultsAt(err, at)
	}
	if parsed, err = parsed.WithLists(r.lists); err != nil {
		return nil, faultsAt(err, at)
	}
	if parsed, err = known.expand(parsed); err != nil {
		return nil, faultsAt(err, at)
	}
	bound, err := parsed.Bind(Schema(known.named(parsed.Columns())))
	if err != nil {
		return nil, faultsAt(r.Explain(err, parsed.Columns()), at)
	}
	out := Output{
		Name: name, Table: TrainingTable, Null: bound.Nullable(),
		Field:    catalog.Field{Name: name, Type: bound.Type(), Required: !bound.Nullable()},
		Computed: &Computed{Expr: parsed, Bound: bound, Text: text, Dataset: r.Dataset.Name},
	}
	for _, column := range bound.Columns() {
		out.Parts = append(out.Parts, known.all[known.at[column][0]])
	}
	out.place()
	return &out, nil
}

// Expand inserts the expressions of the dataset's computed columns into a filter that names them.
func (r *Relation) Expand(f dataset.Filter) (dataset.Filter, error) {
	of, expanded := f.Expr(), false
	var err error
	for _, name := range of.Columns() {
		if c := computedOf(name, r.Outputs); c != nil {
			if of, err = of.Substitute(name, c.Expr); err != nil {
				return f, fault.Op(err, "insert the expression of column %q into the filter", name)
			}
			expanded = true
		}
	}
	if !expanded {
		return f, nil
	}
	return dataset.FilterOf(of), nil
}

// computedOf returns the computed output with a name, or nil if there is none.
func computedOf(name string, outputs []Output) *Computed {
	i := slices.IndexFunc(outputs, func(o Output) bool { return o.Name == name && o.Computed != nil })
	if i < 0 {
		return nil
	}
	return outputs[i].Computed
}

// faultsAt returns the faults of an error about the text of a field.
func faultsAt(err error, at string) []fault.Field {
	e := fault.As(err)
	if len(e.Faults) == 0 {
		return []fault.Field{{Field: at, Message: e.Message}}
	}
	faults := slices.Clone(e.Faults)
	for i := range faults {
		faults[i].Field = at
	}
	return faults
}

// place sets the table of an output that is made of parts. If all parts are of one table, it is
// that table. Otherwise the output counts as a training column.
func (o *Output) place() {
	o.Table = TrainingTable
	if len(o.Parts) == 0 {
		return
	}
	every := func(is func(Output) bool) bool {
		return !slices.ContainsFunc(o.Parts, func(p Output) bool { return !is(p) })
	}
	o.Request = every(func(p Output) bool { return p.Request })
	if every(func(p Output) bool { return p.Table == o.Parts[0].Table }) {
		o.Table = o.Parts[0].Table
		o.Promoted = o.Table != TrainingTable && o.Parts[0].Promoted
	}
}

// sortByTable sorts outputs by their tables. The training table is first. The order of the outputs
// of a table does not change.
func sortByTable(outputs []Output) {
	slices.SortStableFunc(outputs, func(a, b Output) int { return a.Table - b.Table })
}
