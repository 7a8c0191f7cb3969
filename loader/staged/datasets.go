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
	"github.com/penstock/penstock/loader/catalog/commit"
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

// SchemaEffects returns the effects of a change of a table's schema on the datasets that read the table, without those that it does
// not affect. An effect has the name of its dataset only if shown returns true for it. SchemaEffects returns Unavailable if a table
// does not respond.
func (d Datasets) SchemaEffects(ctx context.Context, change loader.SchemaChange, shown func(dataset string) bool) ([]loader.SchemaEffect, error) {
	var out []loader.SchemaEffect
	for _, of := range d.Loader.Datasets() {
		if !d.reads(of, change.Table) {
			continue
		}
		effect, err := d.Loader.SchemaEffect(ctx, of, change)
		if !shown(of.Name) {
			effect.Dataset = ""
		}
		if err != nil {
			return nil, fault.Op(err, "check %s with the new columns", effect.Subject())
		}
		if !effect.IsZero() {
			out = append(out, effect)
		}
	}
	return out, nil
}

// CheckAdded returns Invalid if a dataset can be read now, but not after columns are added to a
// table. The parameter table is the table's name as users write it, and to is the table's current
// state. The error describes a dataset only if shown returns true for its name.
func (d Datasets) CheckAdded(ctx context.Context, table string, to *catalog.Table, added []catalog.Field, shown func(dataset string) bool) error {
	edit := commit.SchemaEdit{}
	effects, err := d.SchemaEffects(ctx, loader.SchemaChange{Table: table, From: to, To: edit.Edited(to, added)}, shown)
	if err != nil {
		return err
	}
	for _, e := range effects {
		if e.Broken != nil {
			return unreadable(e, table, added)
		}
	}
	return nil
}

// unreadable returns the error for a dataset that cannot be read after columns are added to a
// table.
func unreadable(e loader.SchemaEffect, table string, added []catalog.Field) error {
	names := make([]string, len(added))
	for i, f := range added {
		names[i] = strconv.Quote(f.Name)
	}
	why := ""
	if e.Dataset != "" {
		why = ": " + fault.As(e.Broken).Message
	}
	return fault.InvalidField("evolve", "%s cannot be read after the new columns %s are added to table %s%s", e.Subject(), strings.Join(names, ", "), table, why).
		In(table, "").WithRemedy("rename or leave out the column, or first set columns or prefix in the dataset's entry so that no two columns have its name")
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
