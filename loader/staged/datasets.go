// Package staged determines how the datasets of a server use a staging table that is being written:
// which keys their training rows have, and whether datasets depend on the order in which the
// table's rows were written.
package staged

import (
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
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
// returns true for it. Entries with a filter are not Unique: their keys need to be unique only
// among the rows that pass the filter.
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
			if s.PointInTime != nil {
				r.Time = s.PointInTime.Staging
			}
			out = append(out, r)
		}
	}
	return out
}

// CheckAnyOrder returns Invalid if a dataset chooses rows of a table by the order in which they
// were written. The error names the dataset if shown returns true for it.
func (d Datasets) CheckAnyOrder(table string, shown func(dataset string) bool) error {
	for _, of := range d.Loader.Datasets() {
		takes := of.Training.Distinct != nil && d.Same(of.Training.Table, table)
		for _, s := range of.Staging {
			takes = takes || s.Duplicates.Choose() && d.Same(s.Table, table)
		}
		if takes {
			name := "a dataset of the server"
			if shown(of.Name) {
				name = "dataset " + of.Name
			}
			return fault.InvalidField("any_order", "%s takes the first or last of several rows of table %s, and then could find other rows than now", name, table).
				In(table, "").WithRemedy("leave any_order out: files whose rows would change their order stay")
		}
	}
	return nil
}
