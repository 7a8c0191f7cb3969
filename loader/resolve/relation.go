package resolve

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Relation is a dataset bound to pinned tables. It is immutable.
type Relation struct {
	Dataset  dataset.Dataset
	Training *catalog.Table
	Filter   *expr.Filter // training rows that count; nil keeps all
	Staging  []Staging    // as the dataset lists them
	Outputs  []Output     // every column that the dataset offers, in order
}

// Staging is a staging entry bound to its table.
type Staging struct {
	dataset.Staging
	Pinned *catalog.Table
	Keys   []Key        // the join key, pairwise
	Rows   *expr.Filter // staging rows that count; nil keeps all
}

// Key is one column of the join key on both sides.
type Key struct {
	Training, Staging catalog.Field
}

// TrainingLevel is the Level of an output that comes from the training table.
const TrainingLevel = -1

// Output is one column of the result.
type Output struct {
	Name  string        // in the stream
	Level int           // index of the staging entry, or TrainingLevel
	Field catalog.Field // in that table
	Null  bool          // may be null in the stream
}

// Arrow returns the column as it stands in the stream's schema.
func (o Output) Arrow() arrow.Field {
	return arrow.Field{Name: o.Name, Type: o.Field.Type, Nullable: o.Null}
}

// Schema returns the stream's schema for some outputs: no metadata, required
// training columns not nullable, staging columns of a left join nullable.
func Schema(outputs []Output) *arrow.Schema {
	fields := make([]arrow.Field, len(outputs))
	for i, o := range outputs {
		fields[i] = o.Arrow()
	}
	return arrow.NewSchema(fields, nil)
}

// Bind resolves all names of a dataset against its tables: training, and one
// table per staging entry. It reports every fault at once, as Invalid.
func Bind(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table) (*Relation, error) {
	b := binder{}
	r := &Relation{Dataset: d, Training: training}
	for i, name := range d.Key {
		b.column(training, name, fmt.Sprintf("key[%d]", i))
	}
	r.Filter = b.filter(d.Training.Filter, training, "training.filter")
	for _, f := range training.Fields {
		r.Outputs = append(r.Outputs, Output{Name: f.Name, Level: TrainingLevel, Field: f, Null: !f.Required})
	}
	for i, entry := range d.Staging {
		at := fmt.Sprintf("staging[%d]", i)
		s := Staging{Staging: entry, Pinned: staging[i], Keys: b.keys(training, staging[i], entry.Key, at)}
		s.Rows = b.filter(entry.Filter, staging[i], at+".filter")
		r.Outputs = append(r.Outputs, b.outputs(i, s, at)...)
		r.Staging = append(r.Staging, s)
	}
	b.names(r)
	if err := fault.Fields(b.faults); err != nil {
		return nil, fault.Op(err, "resolve dataset %q", d.Name)
	}
	return r, nil
}

// binder collects the faults of one Bind.
type binder struct {
	faults []fault.Field
}

func (b *binder) fault(field, nearest, format string, args ...any) {
	b.faults = append(b.faults, fault.Field{Field: field, Nearest: nearest, Message: fmt.Sprintf(format, args...)})
}

func (b *binder) column(t *catalog.Table, name, at string) (catalog.Field, bool) {
	f, ok := t.Field(name)
	if !ok {
		b.fault(at, fault.Nearest(name, t.Names()), "table %s has no column %q", t.Name, name)
	}
	return f, ok
}

func (b *binder) filter(text string, t *catalog.Table, at string) *expr.Filter {
	if text == "" {
		return nil
	}
	f, err := BindFilter(text, t, at)
	if err != nil {
		b.faults = append(b.faults, fault.As(err).Faults...)
	}
	return f
}

// BindFilter parses and types a filter over one table's columns; faults name
// the field at and their position in the text.
func BindFilter(text string, t *catalog.Table, at string) (*expr.Filter, error) {
	parsed, err := expr.Parse(text)
	var filter *expr.Filter
	if err == nil {
		filter, err = parsed.Bind(t.Schema())
	}
	if err == nil {
		return filter, nil
	}
	faults := slices.Clone(fault.As(err).Faults)
	if len(faults) == 0 {
		faults = []fault.Field{{Message: err.Error()}}
	}
	for i := range faults {
		faults[i].Field = at
	}
	return nil, fault.Fields(faults)
}

func (b *binder) keys(training, staging *catalog.Table, pairs []dataset.KeyPair, at string) []Key {
	keys := make([]Key, 0, len(pairs))
	for _, pair := range pairs {
		t, okT := b.column(training, pair.Training, at+".key")
		s, okS := b.column(staging, pair.Staging, at+".key")
		if !okT || !okS {
			continue
		}
		switch {
		case !bucket.Supported(t.Type):
			b.fault(at+".key", "", "column %s.%s of type %s cannot be a key", training.Name, t.Name, t.Type)
		case !equalTypes(t.Type, s.Type):
			b.fault(at+".key", "", "%s.%s is %s and %s.%s is %s: keys of these types cannot be equal",
				training.Name, t.Name, t.Type, staging.Name, s.Name, s.Type)
		}
		keys = append(keys, Key{Training: t, Staging: s})
	}
	return keys
}

// equalTypes says whether values of two key types can be equal: int and long
// match alike, as Iceberg hashes them.
func equalTypes(a, b arrow.DataType) bool {
	integer := func(t arrow.DataType) bool { return t.ID() == arrow.INT32 || t.ID() == arrow.INT64 }
	return integer(a) && integer(b) || arrow.TypeEqual(a, b)
}

// outputs lists what a staging entry offers: the columns asked for, or all
// but its keys, by field id.
func (b *binder) outputs(level int, s Staging, at string) []Output {
	null := func(f catalog.Field) bool { return s.Join == dataset.Left || !f.Required }
	var outputs []Output
	if s.Columns == nil {
		fields := slices.SortedFunc(slices.Values(s.Pinned.Fields), func(x, y catalog.Field) int { return x.ID - y.ID })
		for _, f := range fields {
			if slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Staging.ID == f.ID }) {
				continue
			}
			outputs = append(outputs, Output{Name: s.Prefix + f.Name, Level: level, Field: f, Null: null(f)})
		}
		return outputs
	}
	for i, c := range s.Columns {
		field := fmt.Sprintf("%s.columns[%d]", at, i)
		f, ok := b.column(s.Pinned, c.Column, field)
		if !ok {
			continue
		}
		if slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Staging.ID == f.ID }) {
			b.fault(field, "", "%q is a key of %s; keys of a staging table are never output, the training table's stands for it", c.Column, s.Name)
			continue
		}
		name := c.Name
		if name == "" {
			name = s.Prefix + c.Column
		}
		outputs = append(outputs, Output{Name: name, Level: level, Field: f, Null: null(f)})
	}
	return outputs
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
		at := fmt.Sprintf("staging[%d]", o.Level)
		s := r.Staging[o.Level]
		b.fault(at, "", "column %q of %s has the name of a column of %s; set prefix: \"%s_\" or name the column otherwise",
			o.Name, s.Name, r.levelName(other.Level), s.Name)
	}
}

func (r *Relation) levelName(level int) string {
	if level == TrainingLevel {
		return "the training table " + r.Training.Name
	}
	return r.Staging[level].Name
}

// Select returns the outputs that a query asks for: all of them for nil, else
// training columns in the order asked, then staging columns entry by entry,
// each in the order asked. A column may be given another name.
func (r *Relation) Select(columns []dataset.Column) ([]Output, error) {
	if columns == nil {
		return r.Outputs, nil
	}
	known := make([]string, len(r.Outputs))
	for i, o := range r.Outputs {
		known[i] = o.Name
	}
	var selected []Output
	var faults []fault.Field
	names := map[string]bool{}
	for i, c := range columns {
		at := fmt.Sprintf("columns[%d]", i)
		k := slices.Index(known, c.Column)
		if k < 0 {
			faults = append(faults, fault.Field{
				Field: at, Nearest: fault.Nearest(c.Column, known),
				Message: fmt.Sprintf("the dataset has no column %q", c.Column),
			})
			continue
		}
		if names[c.Output()] {
			faults = append(faults, fault.Field{Field: at, Message: fmt.Sprintf("two columns are named %q; rename one with {column: …, name: …}", c.Output())})
		}
		names[c.Output()] = true
		o := r.Outputs[k]
		o.Name = c.Output()
		selected = append(selected, o)
	}
	if err := fault.Fields(faults); err != nil {
		return nil, err
	}
	slices.SortStableFunc(selected, func(a, b Output) int { return a.Level - b.Level })
	return selected, nil
}
