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

// TrainingTable is the Table of an output that comes from the training table.
const TrainingTable = -1

// Output is one column of the result.
type Output struct {
	Name  string        // in the stream
	Table int           // index of the staging entry, or TrainingTable
	Field catalog.Field // in that table; of a Matched output only its type is set
	Null  bool          // may be null in the stream
	// Matched says that the column is no column of a table: it is true where
	// the row has a match in Table, else false.
	Matched bool
	// Default is what the column holds where the row has no match in Table: an
	// array of one value of the output's Type, in Go's memory; nil is null. It
	// must not be released.
	Default arrow.Array
	// Overlays are the staging columns that replace this training column where
	// they match, in the order of the joins: later ones win.
	Overlays []Overlay
	// Shapes are what is made of the values, one after the other.
	Shapes []Shape
	// Request says that the column is one of the training table's that are constant
	// within a request.
	Request bool
	// Dense is what the column is packed of; nil: it is a column of a table. Of the
	// other fields only Name, Table and Request are set then.
	Dense *Dense

	missing any // the default as the dataset gives it
}

// Overlay is a staging column that replaces a training column of its type.
type Overlay struct {
	Table int
	Field catalog.Field
}

// Shape is what is made of a column's values: of a list its first or last
// elements, or a cast.
type Shape struct {
	First, Last int            // 0: all; not both
	As          arrow.DataType // nil: as it is
}

// Type returns the column's type in the stream.
func (o Output) Type() arrow.DataType {
	if o.Dense != nil {
		return o.Dense.arrow()
	}
	for _, s := range slices.Backward(o.Shapes) {
		if s.As != nil {
			return s.As
		}
	}
	return o.Field.Type
}

// arrowField returns the column as it stands in the stream's schema.
func (o Output) arrowField() arrow.Field {
	return arrow.Field{Name: o.Name, Type: o.Type(), Nullable: o.Null}
}

// Schema returns the stream's schema for some outputs: no metadata, required
// training columns not nullable, staging columns of a left join nullable.
func Schema(outputs []Output) *arrow.Schema {
	fields := make([]arrow.Field, len(outputs))
	for i, o := range outputs {
		fields[i] = o.arrowField()
	}
	return arrow.NewSchema(fields, nil)
}

// outputs adds what a staging entry offers to the relation: the columns asked
// for, or all but its keys, by field id, then the one that says what matched.
// Columns of an overlay that bear the name of a training column replace it.
func (b *binder) outputs(r *Relation, entry int, fixed map[int]string) {
	s := &r.Staging[entry]
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
			b.fault(at+".missing.default", fault.Nearest(d.Column, names(offered)), "%s offers no column %q", s.Name, d.Column)
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

// offered lists the columns that an entry asks for, named and shaped: those that it
// names, its keys among them if it names them, or else all but its keys.
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

// overlay lets an output replace the training column of its name; false if
// there is none, so that the output is a new column.
func (b *binder) overlay(r *Relation, o Output, given bool, fixed map[int]string, at string) bool {
	i := slices.IndexFunc(r.Outputs, func(t Output) bool { return t.Table == TrainingTable && t.Name == o.Name })
	if i < 0 {
		return false
	}
	replaced, s := &r.Outputs[i], &r.Staging[o.Table]
	use := fixed[replaced.Field.ID]
	switch {
	case use != "":
		b.fault(at, "", "column %q of %s is %s; an overlay cannot replace it: leave it out or name it otherwise", o.Name, r.Training.Name, use)
	case len(o.Shapes) > 0:
		b.fault(at, "", "column %q replaces a training column as it is stored; shape it in the query's columns", o.Name)
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
		b.fault(at, "", "column %q of %s has the name of a column of %s; set prefix: \"%s_\" or name the column otherwise",
			o.Name, s.Name, r.tableName(other.Table), s.Name)
	}
}

// tableName names an output's table in errors.
func (r *Relation) tableName(table int) string {
	if table == TrainingTable {
		return "the training table " + r.Training.Name
	}
	return r.Staging[table].Name
}

// Select returns the outputs that a query asks for: all of them for nil, else
// training columns in the order asked, then staging columns entry by entry,
// each in the order asked. A column may be given another name, and be shaped
// further.
func (r *Relation) Select(columns []dataset.Column) ([]Output, error) {
	if columns == nil {
		return r.Outputs, nil
	}
	known := names(r.Outputs)
	var selected []Output
	var faults []fault.Field
	taken := map[string]bool{}
	for i, c := range columns {
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
	slices.SortStableFunc(selected, func(a, b Output) int { return a.Table - b.Table })
	return selected, nil
}

// selected returns the output that a column asks for, named and shaped; nil if the
// dataset, whose outputs have the known names, has no such column.
func (r *Relation) selected(c dataset.Column, known []string, at string) (*Output, []fault.Field) {
	k, o := slices.Index(known, c.Column), (*Output)(nil)
	if k >= 0 {
		o = new(r.Outputs[k])
	} else if o = r.lineage(c.Column); o == nil {
		if why := withoutLineage(r.Training, c.Column); why != "" {
			return nil, []fault.Field{{Field: at, Message: why}}
		}
		near := fault.Nearest(c.Column, known)
		why, equal := r.NotOffered(c.Column)
		if equal != "" {
			near = equal
		}
		switch {
		case c.Column == "*":
			why = "; leave columns out for all of them"
		case near == "" && why == "" && strings.Contains(strings.TrimSpace(c.Column), " "):
			why = "; names of a list stand apart, with commas"
		}
		return nil, []fault.Field{{
			Field: at, Nearest: near, Message: fmt.Sprintf("the dataset has no column %q%s", c.Column, why),
		}}
	}
	o.Name = c.Output()
	wrong := o.shape(c, at)
	if len(wrong) == 0 {
		wrong = o.setDefault(at)
	}
	return o, wrong
}
