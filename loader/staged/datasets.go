// Package staged determines how the datasets of a server use a staging table that is being written:
// which keys their training rows have, whether they depend on the order in which the table's rows
// were written, and whether they can still be read after columns are added to the table.
package staged

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
)

// Datasets are the datasets of a server.
type Datasets struct {
	Loader *loader.Loader
	// Same reports whether two names refer to the same table. See catalog.Set.
	Same   func(a, b string) bool
	Budget *budget.Budget // nil is unlimited
}

// Readers describes how the datasets read a table. It names a dataset only if shown is not nil and
// returns true for the dataset. It does not report entries with a filter as Unique, because their
// keys must be unique only among the rows that pass the filter.
func (d Datasets) Readers(table string, shown func(dataset string) bool) []stage.DatasetReader {
	var out []stage.DatasetReader
	for _, of := range d.Loader.Datasets() {
		name := ""
		if shown != nil && shown(of.Name) {
			name = of.Name
		}
		if d.Same(of.Training.Table, table) {
			out = append(out, stage.DatasetReader{Dataset: name, Training: of.Training.Table})
		}
		for _, s := range of.Staging {
			if !d.Same(s.Table, table) {
				continue
			}
			r := stage.DatasetReader{
				Dataset: name, Training: of.Training.Table, Key: s.Key, Aligned: s.Align != nil,
				Unique: s.Join.Adds() && s.Duplicates.Fail() && s.Filter.IsZero(),
			}
			if name != "" {
				r.Entry = s.Name
			}
			if s.PointInTime != nil {
				r.Time = s.PointInTime.Staging
			}
			out = append(out, r)
		}
	}
	return out
}

// CheckAdded returns Invalid if a dataset can be read now, but not after columns are added to a
// table. The parameter table is the table's name as users write it, and to is the table's current
// state. The error describes a dataset only if shown returns true for its name.
func (d Datasets) CheckAdded(ctx context.Context, table string, to *catalog.Table, added []catalog.Field, shown func(dataset string) bool) error {
	for _, of := range d.Loader.Datasets() {
		if !d.reads(of, table) {
			continue
		}
		err := d.Loader.CheckAdded(ctx, of, to, added)
		switch {
		case err == nil:
		case fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil:
			return fault.Op(err, "check %s with the new columns", nameOf(of, shown))
		default:
			return unreadable(of, table, err, added, shown)
		}
	}
	return nil
}

// unreadable returns the error for a dataset that cannot be read after columns are added to a
// table. Err is the error of reading the dataset.
func unreadable(of dataset.Dataset, table string, err error, added []catalog.Field, shown func(dataset string) bool) error {
	names := make([]string, len(added))
	for i, f := range added {
		names[i] = strconv.Quote(f.Name)
	}
	why := ""
	if shown(of.Name) {
		why = ": " + fault.As(err).Message
	}
	return fault.InvalidField("evolve", "%s cannot be read after the new columns %s are added to table %s%s", nameOf(of, shown), strings.Join(names, ", "), table, why).
		In(table, "").WithRemedy("rename or leave out the column, or first set columns or prefix in the dataset's entry so that no two columns have its name")
}

// CheckPromoted returns Conflict if another dataset than the one with a name has other values after entries of
// that dataset are promoted: it reads the same training table, and lacks an overlay among the entries, or defines it otherwise.
// promoted has the entries, and the key and the training table of the dataset.
func (d Datasets) CheckPromoted(name string, promoted dataset.Dataset, shown func(dataset string) bool) error {
	for _, s := range promoted.Staging {
		if !s.Join.Replaces() {
			continue
		}
		for _, other := range d.Loader.Datasets() {
			if other.Name == name || other.Training.Ref != (dataset.Ref{}) || !d.Same(other.Training.Table, promoted.Training.Table) || hasEntry(other, s, promoted.Key) {
				continue
			}
			return fault.New(fault.Conflict, "entry %s is an overlay, and %s reads table %s without it: the columns that it replaces would have other values there",
				s.Name, nameOf(other, shown), promoted.Training.Table).In(promoted.Training.Table, "").
				WithRemedy("add the same entry to that dataset, or remove the dataset; --no-check promotes nevertheless (no_check=True in Python)")
		}
	}
	return nil
}

// hasEntry reports whether a dataset has an entry with the name, table and definition of an entry of a dataset with a key. After a
// promotion of the entry, such a dataset has the values that it had before.
func hasEntry(of dataset.Dataset, entry dataset.Staging, key []string) bool {
	of = of.Defaults()
	return slices.ContainsFunc(of.Staging, func(s dataset.Staging) bool {
		return s.Name == entry.Name && s.Table == entry.Table && s.PromotionDigest(of.Key) == entry.PromotionDigest(key)
	})
}

// reads reports whether a dataset reads a table.
func (d Datasets) reads(of dataset.Dataset, table string) bool {
	return d.Same(of.Training.Table, table) || slices.ContainsFunc(of.Staging, func(s dataset.Staging) bool { return d.Same(s.Table, table) })
}

// nameOf returns the name of a dataset for errors, or a general text if the name may not be shown.
func nameOf(of dataset.Dataset, shown func(dataset string) bool) string {
	if shown(of.Name) {
		return "dataset " + of.Name
	}
	return "a dataset of the server"
}

// CheckAnyOrder returns Invalid if the rows that a dataset chooses from a table depend on the order
// in which they were written. The error names the dataset if shown returns true for it.
func (d Datasets) CheckAnyOrder(table string, shown func(dataset string) bool) error {
	for _, of := range d.Loader.Datasets() {
		takes := of.Training.Distinct != nil && d.Same(of.Training.Table, table)
		for _, s := range of.Staging {
			takes = takes || s.Duplicates.Choose() && d.Same(s.Table, table)
		}
		if takes {
			return fault.InvalidField("any_order", "%s takes the first or last of several rows of table %s, and then could find other rows than now", nameOf(of, shown), table).
				In(table, "").WithRemedy("leave any_order out: files whose rows would change their order stay")
		}
	}
	return nil
}
