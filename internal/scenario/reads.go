package scenario

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/loader/dataset"
)

// Reads returns the columns that a read of the case needs, by table and in alphabetical order.
// These are columns that the read returns, and columns by which it joins, orders, filters or
// samples. If only a filter names a column, and the filter does not depend on it, as in "a = 1 OR
// TRUE", the product may skip the column.
func (c *Case) Reads() map[string][]string {
	keyed, filtered := newOracle(c).reading()
	return named(keyed, filtered)
}

// ReadsAlways returns those columns of Reads that are needed regardless of filters.
func (c *Case) ReadsAlways() map[string][]string {
	keyed, _ := newOracle(c).reading()
	return named(keyed)
}

func named(sets ...map[string]columnSet) map[string][]string {
	all := map[string][]string{}
	for _, set := range sets {
		for table, columns := range set {
			all[table] = append(all[table], slices.Collect(maps.Keys(columns))...)
		}
	}
	for table, columns := range all {
		slices.Sort(columns)
		all[table] = slices.Compact(columns)
	}
	return all
}

// columnSet is a set of columns of a table.
type columnSet map[string]bool

func (s columnSet) add(columns ...string) {
	for _, c := range columns {
		s[c] = true
	}
}

// reading returns the columns that are read for reasons other than filters (always), and the
// columns that filters name (filtered).
func (o *oracle) reading() (always, filtered map[string]columnSet) {
	always, filtered = map[string]columnSet{}, map[string]columnSet{}
	for _, t := range o.Tables() {
		always[t.Name], filtered[t.Name] = columnSet{}, columnSet{}
	}
	training := always[o.Training.Name]
	for i, entry := range o.Dataset.Staging {
		if !o.used(i) && !mayDecide(entry) {
			continue
		}
		staging := always[o.Staging[i].Name]
		for _, k := range entry.Key {
			training.add(k.Training)
			staging.add(k.Staging)
		}
		if p := entry.PointInTime; p != nil {
			training.add(p.Training)
			staging.add(p.Staging)
		}
		staging.add(orderedBy(entry.OrderBy)...)
		filtered[o.Staging[i].Name].add(o.filter(entry.Filter).Columns()...)
	}
	if d := o.Dataset.Training.Distinct; d != nil {
		training.add(d.By...)
		training.add(orderedBy(d.OrderBy)...)
	}
	if s := o.Query.Sample; s != nil && s.Hash != nil {
		training.add(o.Dataset.Key[0])
		if s.By == dataset.SampleByKey {
			training.add(o.Dataset.Key...)
		}
	}
	if q := o.Query; q.BatchRequests > 0 || q.Order == dataset.Shuffled && (q.Shuffle == "" || q.Shuffle == dataset.ShuffleRequests) {
		training.add(o.Dataset.Key...)
	}
	for _, names := range o.inputs() {
		for _, output := range o.asked(names) {
			o.source(output.Column, always)
		}
	}
	for _, column := range o.packed() {
		o.source(column.Column, always)
	}
	if o.Dataset.Training.RequestLevel != nil {
		training.add(o.Dataset.Key...)
	}
	for _, t := range append(o.before, o.where, o.filter(o.Dataset.Training.Filter)) {
		filtered[o.Training.Name].add(t.Columns()...)
	}
	for _, t := range o.after {
		for _, name := range t.Columns() {
			o.source(name, filtered)
		}
	}
	return always, filtered
}

func orderedBy(order []dataset.OrderBy) []string {
	names := make([]string, len(order))
	for i, by := range order {
		names[i] = by.Column
	}
	return names
}

// source adds the columns from which an output column comes: a training column and its overlays, or
// a staging column, or those of the columns of which a computed column is made.
func (o *oracle) source(output string, to map[string]columnSet) {
	if _, ok := o.computed[output]; ok {
		for _, name := range o.leaves(output) {
			o.source(name, to)
		}
		return
	}
	if slices.Contains(o.names, output) {
		to[o.Training.Name].add(output)
	}
	for i := range o.Dataset.Staging {
		for _, column := range o.shown(i) {
			if column.Output() == output {
				to[o.Staging[i].Name].add(column.Column)
			}
		}
	}
}

// misread compares the columns that planning requested from the catalog with those that
// the case reads. It skips tables that planning did not reach.
func (c *Case) misread(w *World) Difference {
	always, _ := newOracle(c).reading()
	for table, allowed := range c.Reads() {
		asked := w.asked[table]
		if len(asked) == 0 {
			continue
		}
		for name := range asked {
			if !slices.Contains(allowed, name) {
				return Difference{"a column is read without need", table + ": " + name}
			}
		}
		for name := range always[table] {
			if !asked[name] {
				return Difference{"a column is read that planning did not request", table + ": " + name}
			}
		}
	}
	return Difference{}
}
