package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// TrainingTable is the Table of an output from the training table.
const TrainingTable = -1

// Output is one column of the result.
type Output struct {
	Name  string        // the column's name in the stream
	Table int           // index of the staging entry, or TrainingTable
	Field catalog.Field // the column of that table, or, if Promoted is set, of the training table; in a Matched or Computed output, it has no id
	Null  bool          // whether the column may be null in the stream
	// Matched reports that the column is not a column of a table. Its value is true if the row has
	// a match in Table, and false otherwise.
	Matched bool
	// Promoted reports that a column of the training table has the values that a join would give,
	// from Table or from overlays.
	Promoted bool
	// Default is the value of rows without a match in Table, as an array with one value of the
	// output's Type; nil stands for null. It is on the Go heap and must not be released.
	Default arrow.Array
	// Overlays are the staging columns that replace this training column in rows with a match, in
	// the order of the joins. A later overlay replaces an earlier one.
	Overlays []Overlay
	// Shapes are applied to the values, one after the other.
	Shapes []Shape
	// Request reports that the column is a training column that is constant within a
	// request.
	Request bool
	// Category reports that the stream sends the column as codes, with a dictionary in each batch.
	// Type returns the type of the dictionary's values.
	Category bool
	// Parts are the outputs of which a dense or computed column is made. They are nil for a column
	// of a table.
	Parts    []Output
	Dense    *Dense    // nil: the column is not dense; for a dense column, Field, Null, Default, Overlays and Shapes are not set
	Computed *Computed // nil: the column is not computed; for a computed column, Default and Overlays are not set

	missing any // the default in the dataset's notation
}

// Overlay is a staging column that replaces a training column of the same type.
type Overlay struct {
	Table int
	Field catalog.Field
}

// Shape changes the values of a column: it keeps the first or last elements of a list, or casts
// values.
type Shape struct {
	First, Last int            // the number of elements to keep; 0: all; at most one of them is set
	As          arrow.DataType // nil: no cast
}

// OfTraining reports whether the values are read from the training table.
func (o Output) OfTraining() bool { return o.Table == TrainingTable || o.Promoted }

// Made reports whether the column is made of other columns, so that it is not a column of a table.
func (o Output) Made() bool { return o.Dense != nil || o.Computed != nil }

// Type returns the column's type in the stream. For a category, it returns the type of the
// dictionary's values.
func (o Output) Type() arrow.DataType {
	if o.Dense != nil {
		return packedType(len(o.Parts))
	}
	for _, s := range slices.Backward(o.Shapes) {
		if s.As != nil {
			return s.As
		}
	}
	return o.Field.Type
}

// arrowField returns the column's field in the stream's schema. Its metadata, and that of nested fields, declares UUIDs.
func (o Output) arrowField() arrow.Field {
	f := arrow.Field{Name: o.Name, Type: o.Type(), Nullable: o.Null}
	if declared := o.Field.Declared; declared != nil {
		f.Type, f.Metadata = declared.Type, declared.Metadata // no shape changes the type of UUIDs
	}
	if o.Category {
		f.Type = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: f.Type}
	}
	return f
}

// Schema returns the stream's schema for some outputs. It has no metadata of its own. Required
// training columns are not nullable. Staging columns of a left join are nullable.
func Schema(outputs []Output) *arrow.Schema {
	fields := make([]arrow.Field, len(outputs))
	for i, o := range outputs {
		fields[i] = o.arrowField()
	}
	return arrow.NewSchema(fields, nil)
}

// outputs adds the outputs of a staging entry to the relation. These are the columns that the entry
// names, or else all columns except the entry's keys in the order of field ids, and then the column
// that reports matches. In an overlay, a column with the name of a training column replaces that
// column.
func (b *binder) outputs(r *Relation, entry int, fixed map[int]string) {
	s := &r.Staging[entry]
	if s.Promoted != nil {
		b.promoted(r, entry, fixed)
		return
	}
	if !s.Join.Adds() {
		return
	}
	at := fmt.Sprintf("staging[%d]", entry)
	offered := b.offered(s, at)
	defaults := b.defaultsOf(s, at)
	for i, o := range offered {
		o.Table = entry
		field := fmt.Sprintf("%s.columns[%d]", at, i)
		value, given := defaults[o.Name]
		delete(defaults, o.Name)
		if s.Join.Replaces() && b.overlay(r, o, given, fixed, field) {
			continue
		}
		o.Null = s.Join.Fills() || !o.Field.Required
		if given {
			o.missing = value
			b.faults = append(b.faults, o.setDefault(at+".missing.default."+o.Name)...)
		}
		r.Outputs = append(r.Outputs, o)
	}
	for _, d := range s.Defaults {
		if _, left := defaults[d.Column]; left {
			b.fault(at+".missing.default", b.nearest(d.Column, func() []string { return names(offered) }), "%s offers no column %q", s.Name, d.Column)
		}
	}
	if s.MatchedAs != "" {
		matched := catalog.Field{Name: s.MatchedAs, Type: arrow.FixedWidthTypes.Boolean, Required: true}
		r.Outputs = append(r.Outputs, Output{Name: s.MatchedAs, Table: entry, Field: matched, Matched: true})
	}
}

func names(outputs []Output) []string {
	all := make([]string, len(outputs))
	for i, o := range outputs {
		all[i] = o.Name
	}
	return all
}

// offered returns the columns of an entry, renamed and shaped. These are the columns that the entry
// names, which may include keys, or else all columns except the entry's keys.
func (b *binder) offered(s *Staging, at string) []Output {
	isKey := func(f catalog.Field) bool {
		return slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Staging.ID == f.ID })
	}
	var outputs []Output
	if s.Columns == nil {
		fields := slices.SortedFunc(slices.Values(s.Pinned.Fields), func(x, y catalog.Field) int { return x.ID - y.ID })
		for _, f := range fields {
			if !isKey(f) {
				outputs = append(outputs, Output{Name: s.Prefix + f.Name, Field: f})
			}
		}
		return outputs
	}
	for i, c := range s.Columns {
		field := fmt.Sprintf("%s.columns[%d]", at, i)
		f, ok := b.column(s.Pinned, c.Column, field)
		if !ok {
			continue
		}
		o := Output{Name: c.Name, Field: f}
		if o.Name == "" {
			o.Name = s.Prefix + c.Column
		}
		b.faults = append(b.faults, o.shape(c, field)...)
		outputs = append(outputs, o)
	}
	return outputs
}

// overlay makes an output replace the training column with the same name. It returns false if there
// is none; then the output is a new column.
func (b *binder) overlay(r *Relation, o Output, given bool, fixed map[int]string, at string) bool {
	i := slices.IndexFunc(r.Outputs, func(t Output) bool { return t.Table == TrainingTable && t.Name == o.Name })
	if i < 0 {
		return false
	}
	replaced, s := &r.Outputs[i], &r.Staging[o.Table]
	use := fixed[replaced.Field.ID]
	switch {
	case use != "":
		b.fault(at, "", "column %q of %s is %s; an overlay cannot replace it: omit or rename it", o.Name, r.Training.Name, use)
	case len(o.Shapes) > 0:
		b.fault(at, "", "column %q replaces a stored training column; shape it in the query's columns instead", o.Name)
	case !arrow.TypeEqual(o.Field.Type, replaced.Field.Type):
		b.fault(at, "", "column %q is %s in %s and %s in %s: an overlay replaces values of one type",
			o.Name, o.Field.Type, s.Name, replaced.Field.Type, r.Training.Name)
	case given:
		b.fault(fmt.Sprintf("staging[%d].missing.default", o.Table), "",
			"column %q replaces a training column: a row without a match keeps the training table's value", o.Name)
	}
	if s.Nulls.Replace() && !o.Field.Required {
		replaced.Null = true
	}
	replaced.Overlays = append(replaced.Overlays, Overlay{Table: o.Table, Field: o.Field})
	return true
}

// names reports outputs that share a name.
func (b *binder) names(r *Relation) {
	seen := map[string]Output{}
	for _, o := range r.Outputs {
		other, ok := seen[o.Name]
		if !ok {
			seen[o.Name] = o
			continue
		}
		at := fmt.Sprintf("staging[%d]", o.Table)
		s := r.Staging[o.Table]
		if o.Matched {
			b.fault(at+".matched_as", "", "%q is the name of a column of %s; choose another", o.Name, r.tableName(other.Table))
			continue
		}
		b.fault(at, "", "column %q of %s has the name of a column of %s; set prefix: \"%s_\" or rename the column",
			o.Name, s.Name, r.tableName(other.Table), s.Name)
	}
}

// tableName returns the name of an output's table for errors.
func (r *Relation) tableName(table int) string {
	if table == TrainingTable {
		return "the training table " + r.Training.Name
	}
	return r.Staging[table].Name
}

// Select returns the outputs of a query's columns. If columns is nil, it returns all outputs.
// Otherwise it returns training columns in the given order, and then the staging columns of one
// entry after the other, each in the given order. A query may rename columns, and apply further
// shapes to them.
func (r *Relation) Select(columns []dataset.Column) ([]Output, error) {
	if columns == nil {
		return r.Outputs, nil
	}
	known := r.index()
	var selected []Output
	var faults []fault.Field
	taken := map[string]bool{}
	for i, c := range columns {
		if len(faults) >= maxFaults {
			faults = append(faults, fault.Field{Field: "columns", Message: fmt.Sprintf("%s more were not checked", fault.Count(len(columns)-i, "column"))})
			break
		}
		at := fmt.Sprintf("columns[%d]", i)
		o, wrong := r.selected(c, known, at)
		faults = append(faults, wrong...)
		if o == nil {
			continue
		}
		if taken[o.Name] {
			faults = append(faults, fault.Field{Field: at, Message: fmt.Sprintf("two columns are named %q; rename one with {column: …, name: …}", o.Name)})
		}
		taken[o.Name] = true
		selected = append(selected, *o)
	}
	if err := fault.Fields(faults); err != nil {
		return nil, err
	}
	sortByTable(selected)
	return selected, nil
}

// selected returns the output of a query's column, renamed and shaped, or nil if the dataset has no
// such column. known has the dataset's outputs.
func (r *Relation) selected(c dataset.Column, known *outputIndex, at string) (*Output, []fault.Field) {
	var o *Output
	if c.Expr != "" {
		var faults []fault.Field
		if o, faults = r.computedFor(c, known, at); o == nil {
			return nil, faults
		}
	} else if stored := known.output(c.Column); stored != nil {
		o = new(*stored)
	} else if o = r.lineage(c.Column); o == nil {
		if why := withoutLineage(r.Training, c.Column); why != "" {
			return nil, []fault.Field{{Field: at, Message: why}}
		}
		near := fault.Nearest(c.Column, names(r.Outputs))
		why, equal := r.NotOffered(c.Column)
		if equal != "" {
			near = equal
		}
		if later := r.promotedLater(c.Column); later != "" {
			near, why = "", later
		}
		switch {
		case c.Column == "*":
			why = "; omit columns to get all of them"
		case near == "" && why == "" && strings.HasPrefix(c.Column, `"`):
			why = "; only expressions and filters quote names"
		case near == "" && why == "" && strings.Contains(strings.TrimSpace(c.Column), " "):
			why = "; separate the names of a list with commas"
		}
		return nil, []fault.Field{{
			Field: at, Nearest: near, Message: fmt.Sprintf("the dataset has no column %q%s", c.Column, why),
		}}
	}
	o.Name = c.Output()
	if c.As == dataset.Category {
		return o, o.category(c, at)
	}
	wrong := o.shape(c, at)
	if len(wrong) == 0 {
		wrong = o.setDefault(at)
	}
	return o, wrong
}

// Asks reports whether outputs contain a value of a staging entry: one of its columns, the column
// that reports its matches, or a training column that it overlays.
func Asks(outputs []Output, entry int) bool {
	return slices.ContainsFunc(Leaves(outputs), func(o Output) bool {
		return o.Table == entry || slices.ContainsFunc(o.Overlays, func(over Overlay) bool { return over.Table == entry })
	})
}

// Needed reports whether a stream joins the entry. asked says whether the stream or its filter uses
// a value of the entry (Asks). An entry that is read from the training table (Promoted) is not
// joined. If the stream uses no value, the entry is joined only if it drops or repeats rows, or if
// rows without a match can fail the stream.
func (s Staging) Needed(asked bool) bool {
	return s.Promoted == nil && (s.Counted(asked) || s.Missing.Fail() || s.MinMatch > 0)
}

// Counted reports whether the entry affects which rows a stream has: it drops or repeats rows, or a
// filter uses one of its values. asked says whether a filter uses one.
func (s Staging) Counted(asked bool) bool {
	return asked || !s.Join.KeepsAll() || s.Duplicates.Multiply()
}
