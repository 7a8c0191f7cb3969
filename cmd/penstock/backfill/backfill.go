// Package backfill generates a Spark SQL script that creates and fills a staging table for a
// feature. It also generates a dataset that reads this table. The layout of the staging table is
// derived from the layout of the training table.
//
// Add adds features to a dataset, Replace gives a column new values, and Remove removes a column.
// Each of these functions checks its result: it binds the new dataset to its tables, decodes it,
// and returns an error if the script could not work. The package only computes: the tables are
// arguments, and nothing is executed.
package backfill

import (
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/resolve"
)

// Target is the dataset that gets or loses a feature, with its tables.
type Target struct {
	Dataset  dataset.Dataset // with its name
	Training *catalog.Table
	Staging  []*catalog.Table          // the staging table of each entry of the dataset
	Others   []dataset.Dataset         // the other datasets of the config file
	SQLName  func(table string) string // returns the dotted name of a table in Spark; nil: tables have the same names in Spark as in the dataset
}

// Feature is a column to backfill.
type Feature struct {
	Name string
	Type arrow.DataType
}

// StagingPlan describes the layout of a staging table.
type StagingPlan struct {
	Table     string // its name: [catalog.]namespace.table
	Features  []Feature
	Key       []string // columns of the training table; nil: the dataset's key or, if it has no key, the columns that the training table is bucketed by
	Buckets   int      // the number of buckets of the key; 0: as many as the training table has
	Unaligned bool     // whether a row of the staging table applies to all partitions of the training table
	Sort      []string // columns of the staging table; nil: its key
	// From and To are the first and the last day of the rows that the script inserts; zero: there is no limit.
	From, To time.Time
}

// Script is the SQL to run in Spark, and the dataset to use.
type Script struct {
	SQL     string
	Dataset dataset.Dataset
	Layout  Layout // of the staging table; zero if the script creates none

	added bool // whether the last entry of the dataset is new
}

// Add returns the script for features that the dataset does not have.
func Add(to Target, p StagingPlan) (*Script, error) {
	s, err := p.lay(to)
	if err != nil {
		return nil, err
	}
	return s.script(to, to.Dataset, to.Staging, nil)
}

// Replace returns the script that replaces the values of the dataset's column old by the values of
// a new feature. The plan must have exactly one feature. The script adds a column for the feature,
// and the dataset gives this column the name old.
func Replace(in Target, p StagingPlan, old string) (*Script, error) {
	if len(p.Features) != 1 {
		return nil, fault.New(fault.Invalid, "one column replaces a column, but the plan has %d", len(p.Features))
	}
	if p.Features[0].Name == old {
		return nil, fault.InvalidField("--column", "the new column has the same name as the old one, %q", old).
			WithRemedy("give it a name of its own, such as %s_v2: the dataset swaps the names", old)
	}
	found, err := in.find(old)
	if err != nil {
		return nil, err
	}
	s, err := p.lay(in)
	if err != nil {
		return nil, err
	}
	s.entry.Columns[0].Name = old
	if found.Table == resolve.TrainingTable {
		s.entry.Join = rule.Overlay
		return s.script(in, in.Dataset, in.Staging, swapInTraining(in, s.entry.Columns[0].Column, found))
	}
	d, tables := in.without(found)
	return s.script(in, d, tables, swapInStaging(in, found))
}

// Remove returns the script that removes a column from the dataset, and from the table that has the
// column.
func Remove(from Target, column string) (*Script, error) {
	found, err := from.find(column)
	if err != nil {
		return nil, err
	}
	d, tables := from.Dataset, from.Staging
	t := from.Training
	if found.Table != resolve.TrainingTable {
		t = from.Staging[found.Table]
		d, tables = from.without(found)
	} else if len(found.Overlays) > 0 {
		return nil, inUse(t, found, "entry "+from.Dataset.Staging[found.Overlays[0].Table].Name+" replaces its values: remove that entry first")
	}
	for _, spec := range t.Specs {
		if slices.ContainsFunc(spec, func(f catalog.PartitionField) bool { return f.Source == found.Field.ID }) {
			return nil, inUse(t, found, "the table is or was partitioned by it")
		}
	}
	rest := withoutField(t, found.Field)
	training, tables := from.Training, slices.Clone(tables)
	for i := range tables {
		if alike(tables[i], t) {
			tables[i] = rest
		}
	}
	if alike(training, t) {
		training = rest
	}
	if err := check(d, training, tables); err != nil {
		return nil, fault.Op(err, "remove column %s of dataset %s", column, from.Dataset.Name)
	}
	if also, ok := from.alsoLost(Target{Dataset: d, Training: training, Staging: tables}, column); ok {
		return nil, inUse(t, found, "column "+also+" of the dataset has its values, too: remove that one from the dataset first")
	}
	unread := !slices.ContainsFunc(append(slices.Clip(tables), training), func(other *catalog.Table) bool { return other.Name == rest.Name })
	return &Script{SQL: from.removal(t, found, unread), Dataset: d}, nil
}

// alike reports whether a and b are the same table with the same schema, so that both lose a column
// that is dropped. a and b may be different pointers, because entries that read a table at
// different refs have different *catalog.Table values.
func alike(a, b *catalog.Table) bool {
	return a == b || a.Pin.UUID == b.Pin.UUID && a.Pin.Schema == b.Pin.Schema && (a.Pin.UUID != "" || a.Name == b.Name)
}

// alsoLost compares the columns of dataset t with those of the changed dataset, which is the
// argument now. It returns a column that t has and now does not have, other than the given column,
// and reports whether there is such a column.
func (t Target) alsoLost(now Target, column string) (string, bool) {
	before, err := resolve.Bind(t.Dataset.Defaults(), t.Training, t.Staging)
	if err != nil {
		return "", false // unreachable: find has bound the same dataset without an error
	}
	after, err := resolve.Bind(now.Dataset.Defaults(), now.Training, now.Staging)
	if err != nil {
		return "", false
	}
	for _, o := range before.Outputs {
		if o.Name != column && !slices.ContainsFunc(after.Outputs, func(kept resolve.Output) bool { return kept.Name == o.Name }) {
			return o.Name, true
		}
	}
	return "", false
}

func inUse(t *catalog.Table, found resolve.Output, why string) error {
	return fault.New(fault.Invalid, "column %s of %s cannot be removed: %s", found.Field.Name, t.Name, why).In(t.Name, "")
}

// find returns the column of the dataset with the given name. The column must come from a table,
// and must not be promoted. The values of a promoted column are in the training table, so a change
// of the staging entry, or of the entry's table, does not change the column.
func (t Target) find(name string) (resolve.Output, error) {
	d := t.Dataset.Defaults()
	r, err := resolve.Bind(d, t.Training, t.Staging)
	if err != nil {
		return resolve.Output{}, fault.Op(err, "dataset %s", t.Dataset.Name)
	}
	promoted := resolve.PromotedNames(d, t.Training)
	var names []string
	for _, o := range r.Outputs {
		entry := o.Table
		if len(o.Overlays) > 0 {
			entry = o.Overlays[len(o.Overlays)-1].Table
		}
		if o.Name == name && entry != resolve.TrainingTable && slices.Contains(promoted, d.Staging[entry].Name) {
			return o, fault.New(fault.Invalid, "column %s of dataset %s was promoted: table %s has its values", name, t.Dataset.Name, t.Training.Name).
				In(t.Training.Name, "").WithRemedy("take the promotion back with penstock demote %s, or give the new feature another name", t.Training.Name)
		}
		if o.Name == name && !o.Matched {
			return o, nil
		}
		names = append(names, o.Name)
	}
	e := fault.New(fault.NotFound, "dataset %s has no column %q that comes from a table", t.Dataset.Name, name)
	e.Faults = []fault.Field{{Field: "column", Message: e.Message, Nearest: fault.Nearest(name, names)}}
	if near := e.Faults[0].Nearest; near != "" {
		return resolve.Output{}, e.WithRemedy("did you mean %q?", near)
	}
	return resolve.Output{}, e.WithRemedy("penstock datasets %s lists its columns", t.Dataset.Name)
}

// without removes a column of a staging entry from the dataset. If the entry then no longer affects
// the result of the dataset, without also removes the entry. It returns the new dataset, and the
// tables of its entries.
func (t Target) without(o resolve.Output) (dataset.Dataset, []*catalog.Table) {
	d := t.Dataset.Defaults()
	d.Staging = slices.Clone(d.Staging)
	e := &d.Staging[o.Table]
	e.Columns = slices.DeleteFunc(listed(*e, t.Staging[o.Table]), func(c dataset.Column) bool {
		return c.Name == o.Name || c.Name == "" && e.Prefix+c.Column == o.Name
	})
	e.Defaults = slices.DeleteFunc(slices.Clone(e.Defaults), func(v dataset.Default) bool { return v.Column == o.Name })
	if e.Missing.Defaults() && len(e.Defaults) == 0 {
		e.Missing = rule.MissingNull
	}
	idle := len(e.Columns) == 0 && e.Join.KeepsAll() && e.MatchedAs == "" && e.MinMatch == 0 && !e.Missing.Fail() && !e.Duplicates.Multiply()
	if !idle {
		return d, t.Staging
	}
	d.Staging = slices.Delete(d.Staging, o.Table, o.Table+1)
	return d, slices.Delete(slices.Clone(t.Staging), o.Table, o.Table+1)
}

// listed returns the columns that an entry provides, even if the entry does not list them.
func listed(e dataset.Staging, t *catalog.Table) []dataset.Column {
	if e.Columns != nil {
		return slices.Clone(e.Columns)
	}
	out := []dataset.Column{}
	fields := slices.SortedFunc(slices.Values(t.Fields), func(a, b catalog.Field) int { return a.ID - b.ID })
	for _, f := range fields {
		if !slices.ContainsFunc(e.Key, func(k dataset.KeyPair) bool { return k.Staging == f.Name }) {
			out = append(out, dataset.Column{Column: f.Name})
		}
	}
	return out
}

// withoutField returns a table without one of its columns.
func withoutField(t *catalog.Table, gone catalog.Field) *catalog.Table {
	out := *t
	is := func(f catalog.Field) bool {
		return f.ID == gone.ID || strings.HasPrefix(f.Name, gone.Name+".")
	}
	out.Fields = slices.DeleteFunc(slices.Clone(t.Fields), func(f catalog.Field) bool { return f.ID == gone.ID })
	out.Nested = slices.DeleteFunc(slices.Clone(t.Nested), is)
	return &out
}

// check returns an error if a dataset cannot be bound to its tables, or if its canonical form
// cannot be decoded.
func check(d dataset.Dataset, training *catalog.Table, staging []*catalog.Table) error {
	if _, err := resolve.Bind(d.Defaults(), training, staging); err != nil {
		return err
	}
	_, err := decode.Query([]byte(`{"dataset":` + string(d.Canonical()) + `}`))
	return err
}
