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
	Filter   *expr.Filter // selects training rows; nil keeps all
	Distinct *Distinct    // nil keeps repeated rows
	// Request is the key of requests if some columns are constant within a request,
	// otherwise nil.
	Request []catalog.Field
	Staging []Staging  // in the dataset's order
	Outputs []Output   // every column of the dataset that the client may read, in order
	lists   expr.Lists // the fitted lists that the expressions of the client may name
	hidden  hidden
}

// Staging is a staging entry bound to its table.
type Staging struct {
	dataset.Staging
	Pinned *catalog.Table
	Keys   []Key        // the join key, pairwise
	Rows   *expr.Filter // selects staging rows; nil keeps all
	Order  []OrderKey   // the order of duplicates; the order of files breaks ties
	Time   *Time        // nil: no time column
	// Promoted has the columns of the training table that contain the entry's values, if streams
	// read these columns instead of joining the entry. Then only the training columns are set in
	// Keys and Time, and only the name and the pin in Pinned. If Promoted is nil, streams join the
	// entry.
	Promoted []PromotedColumn
}

// Key is one column of the join key in both tables.
type Key struct {
	Training, Staging catalog.Field
}

// OrderKey is one column by which rows are ordered. Nulls are last in both directions.
type OrderKey struct {
	Field      catalog.Field
	Descending bool
}

// Time is a point-in-time rule bound to its columns. Both columns have the same type.
type Time struct {
	Training, Staging catalog.Field
	Tolerance         int64 // in the columns' unit: days, microseconds, nanoseconds, or units of a long
	Exact             bool  // whether a staging row of exactly the training row's time matches
	// Zone is the time zone of timestamps that have no zone. If it is not known, both columns must
	// have the same type.
	Zone dataset.Zone
}

// Distinct is the rule by which repeated training rows are dropped.
type Distinct struct {
	By    []catalog.Field
	Keep  dataset.Keep
	Order []OrderKey
	Scope dataset.Scope
}

// Bind resolves all names of a dataset against its tables: the training table, and one table for
// each staging entry. It returns all faults together, as one Invalid error.
//
// If the table of an entry is the result of Promotion.TableFor, the entry is read from the training
// table. All other entries are joined, even if they are promoted. Names find the columns that the
// training table had before the promotions of the dataset's entries.
func Bind(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table) (*Relation, error) {
	b := binder{}
	promotions := Promotions(d, training)
	training = unpromoted(d, training, staging, promotions)
	r := &Relation{Dataset: d, Training: training}
	for i, name := range d.Key {
		b.column(training, name, fmt.Sprintf("key[%d]", i))
	}
	r.Filter = b.filter(d.Training.Filter, training, "training.filter")
	r.Distinct = b.distinct(d.Training.Distinct, training)
	for _, f := range training.Fields {
		r.Outputs = append(r.Outputs, Output{Name: f.Name, Table: TrainingTable, Field: f, Null: !f.Required})
	}
	b.request(r)
	for i, entry := range d.Staging {
		at := fmt.Sprintf("staging[%d]", i)
		if p := promotions[i]; p != nil && staging[i].Pin == p.Pin && staging[i].Fields == nil {
			r.Staging = append(r.Staging, b.promotedStaging(entry, training, p, at))
		} else {
			r.Staging = append(r.Staging, b.staging(entry, training, staging[i], at))
		}
	}
	fixed := r.fixed()
	for i := range r.Staging {
		b.outputs(r, i, fixed)
	}
	b.names(r)
	b.lists(r)
	b.computed(r)
	b.listNames(r)
	if err := fault.Fields(b.faults); err != nil {
		return nil, err
	}
	return r, nil
}

// staging binds the rules of one entry.
func (b *binder) staging(entry dataset.Staging, training, table *catalog.Table, at string) Staging {
	s := Staging{Staging: entry, Pinned: table, Keys: b.keys(training, table, entry.Key, at)}
	s.Rows = b.filter(entry.Filter, table, at+".filter")
	s.Order = b.order(entry.OrderBy, table, at+".order_by")
	s.Time = b.time(entry.PointInTime, training, table, at+".point_in_time")
	return s
}

// promotedStaging binds an entry whose values the training table has.
func (b *binder) promotedStaging(entry dataset.Staging, training *catalog.Table, p *Promotion, at string) Staging {
	s := Staging{Staging: entry, Pinned: &catalog.Table{Name: entry.Table, Pin: p.Pin}, Promoted: p.Columns}
	for i, pair := range entry.Key {
		f, _ := b.column(training, pair.Training, fmt.Sprintf("%s.key[%d]", at, i))
		s.Keys = append(s.Keys, Key{Training: f})
	}
	if entry.PointInTime != nil {
		f, _ := b.column(training, entry.PointInTime.Training, at+".point_in_time.training")
		s.Time = &Time{Training: f}
	}
	return s
}

// binder collects the faults of one call of Bind.
type binder struct {
	faults []fault.Field
}

func (b *binder) fault(field, nearest, format string, args ...any) {
	b.faults = append(b.faults, fault.Field{Field: field, Nearest: nearest, Message: fmt.Sprintf(format, args...)})
}

// nearest returns the known name that is nearest to another one; "" if there is none, or after maxFaults faults.
func (b *binder) nearest(name string, known func() []string) string {
	if len(b.faults) >= maxFaults {
		return ""
	}
	return fault.Nearest(name, known())
}

func (b *binder) column(t *catalog.Table, name, at string) (catalog.Field, bool) {
	f, ok := t.Field(name)
	if why := withoutLineage(t, name); !ok && why != "" {
		b.fault(at, "", "%s", why)
	} else if !ok {
		b.fault(at, b.nearest(name, t.Names), "table %s has no column %q", t.Name, name)
	}
	return f, ok
}

func (b *binder) filter(f dataset.Filter, t *catalog.Table, at string) *expr.Filter {
	conjuncts, err := BindConjuncts(f, t.Schema(), at)
	if err != nil {
		b.faults = append(b.faults, fault.As(err).Faults...)
	}
	return expr.All(conjuncts...)
}

// BindConjuncts types each condition that a filter combines with AND at its top level, in the order
// of Conjuncts. Names in the conditions are columns of the schema. Errors are Invalid, with the
// field at and the position in the filter's text.
func BindConjuncts(f dataset.Filter, schema *arrow.Schema, at string) ([]*expr.Filter, error) {
	conjuncts, err := f.Expr().BindConjuncts(schema)
	if err == nil {
		return conjuncts, nil
	}
	faults := slices.Clone(fault.As(err).Faults)
	for i := range faults {
		faults[i].Field = at
	}
	return nil, fault.Fields(faults)
}

// order binds the columns by which rows of one table are ordered.
func (b *binder) order(by []dataset.OrderBy, t *catalog.Table, at string) []OrderKey {
	var keys []OrderKey
	for i, o := range by {
		field := fmt.Sprintf("%s[%d]", at, i)
		f, ok := b.column(t, o.Column, field)
		if !ok {
			continue
		}
		if !ordered(f.Type) {
			b.fault(field, "", "column %s.%s of type %s has no order", t.Name, f.Name, f.Type)
		}
		keys = append(keys, OrderKey{Field: f, Descending: o.Descending})
	}
	return keys
}

// ordered reports whether rows can be ordered by values of a type.
func ordered(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.FLOAT32, arrow.FLOAT64, arrow.BOOL:
		return true
	default:
		return bucket.Supported(t)
	}
}

// distinct binds the rule for repeated training rows.
func (b *binder) distinct(d *dataset.Distinct, t *catalog.Table) *Distinct {
	if d == nil {
		return nil
	}
	out := &Distinct{Keep: d.Keep, Scope: d.Scope, Order: b.order(d.OrderBy, t, "training.distinct.order_by")}
	for i, name := range d.By {
		at := fmt.Sprintf("training.distinct.by[%d]", i)
		f, ok := b.column(t, name, at)
		if ok && !bucket.Supported(f.Type) {
			b.fault(at, "", "rows cannot be distinguished by column %s.%s of type %s", t.Name, f.Name, f.Type)
		}
		if ok {
			out.By = append(out.By, f)
		}
	}
	return out
}

// PromotedEntries returns the names of the entries that are read from the training table.
func (r *Relation) PromotedEntries() []string {
	var names []string
	for _, s := range r.Staging {
		if s.Promoted != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Pin returns the pins of all tables.
func (r *Relation) Pin() dataset.Pin {
	pin := dataset.Pin{Training: r.Training.Pin, Staging: make(map[string]dataset.TablePin, len(r.Staging))}
	for _, s := range r.Staging {
		pin.Staging[s.Name] = s.Pinned.Pin
	}
	return pin
}

// fixed returns, by field id, the training columns that no overlay may replace, each with the use
// that forbids it.
func (r *Relation) fixed() map[int]string {
	use := r.constant()
	add := func(id int, what string) {
		if use[id] == "" {
			use[id] = what
		}
	}
	for _, name := range r.Dataset.Key {
		if f, ok := r.Training.Field(name); ok {
			add(f.ID, "part of the key")
		}
	}
	for _, s := range r.Staging {
		for _, k := range s.Keys {
			add(k.Training.ID, "part of the key of "+s.Name)
		}
		if s.Time != nil {
			add(s.Time.Training.ID, "the time of "+s.Name)
		}
	}
	for _, spec := range r.Training.Specs {
		for _, f := range spec {
			add(f.Source, "a column by which the table is partitioned")
		}
	}
	if r.Distinct != nil {
		for _, f := range r.Distinct.By {
			add(f.ID, "a column of distinct")
		}
		for _, k := range r.Distinct.Order {
			add(k.Field.ID, "a column of distinct")
		}
	}
	return use
}

// constant returns the training columns that are constant within a request, in the same form as
// fixed.
func (r *Relation) constant() map[int]string {
	use := map[int]string{}
	for _, o := range r.Outputs {
		if o.Request {
			use[o.Field.ID] = "request-level, and so constant within a request, which a joined value need not be"
		}
	}
	return use
}
