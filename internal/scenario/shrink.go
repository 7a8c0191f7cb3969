package scenario

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// maxShrinks is the maximum number of cases that Shrink tries.
const maxShrinks = 4000

// Shrink reduces a failing case step by step to fewer tables, rules, commits, rows and columns. It
// returns the smallest case found that still fails.
func (c *Case) Shrink(fails func(*Case) bool) *Case {
	tries := 0
	for again := true; again; {
		again = false
		for _, smaller := range c.smaller() {
			if tries++; tries > maxShrinks {
				return c
			}
			if fails(smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// smaller returns all cases that are one step smaller, largest steps first.
func (c *Case) smaller() []*Case {
	var all []*Case
	try := func(change func(*Case) bool) {
		if d := c.Clone(); change(d) {
			all = append(all, d)
		}
	}
	for i := range c.Staging {
		try(func(d *Case) bool {
			d.Staging = slices.Delete(d.Staging, i, i+1)
			d.Dataset.Staging = slices.Delete(d.Dataset.Staging, i, i+1)
			offered := newOracle(d).offered
			d.Dataset.Computed = slices.DeleteFunc(d.Dataset.Computed, func(c dataset.Computed) bool { return offered[c.Column] == nil })
			d.Query.Columns = slices.DeleteFunc(slices.Clone(d.Query.Columns), func(c dataset.Column) bool { return offered[c.Column] == nil })
			var dense []dataset.Dense
			for _, one := range d.Query.Dense {
				one.Columns = slices.DeleteFunc(slices.Clone(one.Columns), func(c dataset.Column) bool { return offered[c.Column] == nil })
				if len(one.Columns) > 0 {
					dense = append(dense, one)
				}
			}
			d.Query.Dense = dense
			return true
		})
	}
	for i := range c.Dataset.Computed {
		try(func(d *Case) bool {
			d.Dataset.Computed = slices.Delete(d.Dataset.Computed, i, i+1)
			offered := newOracle(d).offered
			named := func(c dataset.Column) bool { return offered[c.Column] == nil }
			return len(newOracle(d).computed) == len(d.formulas()) && !slices.ContainsFunc(slices.Concat(d.Query.Columns, packedBy(d.Query.Dense)), named)
		})
	}
	for k := range 1 + len(c.Staging) {
		for i := range c.table(k).Commits {
			for _, part := range []int{1, 2, 4} {
				c.withoutLines(try, k, i, part)
			}
		}
	}
	c.simplerQuery(try)
	for i := range c.Dataset.Staging {
		simplerEntry(try, i)
		simplerFilter(try, c.Dataset.Staging[i].Filter, func(d *Case) *dataset.Filter { return &d.Dataset.Staging[i].Filter })
	}
	for k := range 1 + len(c.Staging) {
		for i := range c.table(k).Commits {
			c.withoutLines(try, k, i, len(c.table(k).Commits[i].Lines))
		}
		c.simplerTable(try, k)
	}
	return all
}

// table returns the training table for 0, or a staging table.
func (c *Case) table(k int) *Table {
	if k == 0 {
		return &c.Training
	}
	return &c.Staging[k-1]
}

// withoutLines divides a commit's rows into parts, and tries to drop each part.
func (c *Case) withoutLines(try func(func(*Case) bool), table, commit, parts int) {
	n := len(c.table(table).Commits[commit].Lines)
	for part := range parts {
		from, to := n*part/parts, n*(part+1)/parts
		if from < to {
			try(func(d *Case) bool {
				lines := &d.table(table).Commits[commit].Lines
				*lines = slices.Delete(*lines, from, to)
				return true
			})
		}
	}
}

// set sets a value, and reports whether that changed it.
func set[T comparable](at *T, to T) bool {
	changed := *at != to
	*at = to
	return changed
}

func (c *Case) simplerQuery(try func(func(*Case) bool)) {
	try(func(d *Case) bool { return set(&d.Query.Filter, dataset.Filter{}) })
	try(func(d *Case) bool { return set(&d.Query.Sample, nil) })
	try(func(d *Case) bool { return set(&d.Query.Order, "") })
	try(func(d *Case) bool { return set(&d.Query.Lanes, 1) && set(&d.Query.BatchRows, 100) })
	try(func(d *Case) bool { return set(&d.Query.GlobalBatchRows, 0) })
	try(func(d *Case) bool {
		d.Query.BatchRows = max(d.Query.BatchRows, d.Query.BatchRequests)
		if d.Query.Wire.Grouped() {
			d.Query.Wire = ""
		}
		return set(&d.Query.BatchRequests, 0)
	})
	try(func(d *Case) bool { return set(&d.Query.Limit, 0) })
	try(func(d *Case) bool { return set(&d.Query.Endpoints, "") })
	try(func(d *Case) bool { return set(&d.Query.Wire, "") })
	try(func(d *Case) bool {
		had := d.Query.Dense != nil
		d.Query.Dense = nil
		return had
	})
	try(func(d *Case) bool {
		had := d.Dataset.Training.RequestLevel != nil
		d.Dataset.Training.RequestLevel = nil
		return had
	})
	for i := range c.Dataset.Training.RequestLevel {
		try(func(d *Case) bool {
			names := d.Dataset.Training.RequestLevel
			d.Dataset.Training.RequestLevel = slices.Delete(slices.Clone(names), i, i+1)
			return len(names) > 1
		})
	}
	try(func(d *Case) bool { return set(&d.Workers, 0) })
	try(func(d *Case) bool { return set(&d.Drops, false) })
	try(func(d *Case) bool { return set(&d.ScanRows, 0) })
	try(func(d *Case) bool { return set(&d.Dataset.Training.Filter, dataset.Filter{}) })
	for _, at := range []func(*Case) *dataset.Filter{
		func(d *Case) *dataset.Filter { return &d.Query.Filter },
		func(d *Case) *dataset.Filter { return &d.Dataset.Training.Filter },
	} {
		simplerFilter(try, *at(c), at)
	}
	if s := c.Query.Sample; s != nil {
		simplerFilter(try, s.Where, func(d *Case) *dataset.Filter {
			sample := *s
			d.Query.Sample = &sample
			return &sample.Where
		})
	}
	try(func(d *Case) bool { return set(&d.Dataset.Training.Distinct, nil) })
	try(func(d *Case) bool {
		only := []dataset.Column{{Column: "item"}}
		same := len(d.Query.Columns) == 1
		d.Query.Columns = only
		return !same
	})
	for i := range c.Query.Columns {
		try(func(d *Case) bool {
			columns := d.Query.Columns
			d.Query.Columns = slices.Delete(slices.Clone(columns), i, i+1)
			return columns[i].Column != "item"
		})
	}
	if d := c.Dataset.Training.Distinct; d != nil {
		try(func(c *Case) bool {
			c.Dataset.Training.Distinct = &dataset.Distinct{By: d.By, Keep: d.Keep, Scope: d.Scope}
			return d.OrderBy != nil
		})
	}
}

// simplerFilter tries all filters that are one step smaller.
func simplerFilter(try func(func(*Case) bool), given dataset.Filter, at func(*Case) *dataset.Filter) {
	t, err := cell.ParseFilter(given.String())
	if err != nil || t == nil {
		return
	}
	for _, smaller := range t.Smaller() {
		try(func(d *Case) bool { return set(at(d), smaller.Parsed()) })
	}
}

func simplerEntry(try func(func(*Case) bool), i int) {
	entry := func(change func(*dataset.Staging) bool) {
		try(func(d *Case) bool { return change(&d.Dataset.Staging[i]) })
	}
	entry(func(s *dataset.Staging) bool { return set(&s.Strategy, rule.StrategyIndex) })
	entry(func(s *dataset.Staging) bool { return set(&s.Filter, dataset.Filter{}) })
	entry(func(s *dataset.Staging) bool { return set(&s.Align, nil) })
	entry(func(s *dataset.Staging) bool { return set(&s.PointInTime, nil) })
	entry(func(s *dataset.Staging) bool { return set(&s.MatchedAs, "") })
	entry(func(s *dataset.Staging) bool {
		s.Defaults = nil
		return set(&s.Missing, rule.MissingNull)
	})
	entry(func(s *dataset.Staging) bool {
		had := s.OrderBy != nil
		s.OrderBy = nil
		return had
	})
	entry(func(s *dataset.Staging) bool {
		had := len(s.Key) > 1
		s.Key = s.Key[:1]
		return had
	})
	entry(func(s *dataset.Staging) bool {
		return s.Duplicates == rule.DuplicatesAll && set(&s.Duplicates, rule.DuplicatesFirst)
	})
	entry(func(s *dataset.Staging) bool {
		if s.Join == rule.Overlay || s.Join == rule.Left {
			return false
		}
		s.Columns = []dataset.Column{}
		return set(&s.Join, rule.Left)
	})
	entry(func(s *dataset.Staging) bool {
		had := len(s.Columns) > 0 && len(s.Defaults) == 0
		if had {
			s.Columns = s.Columns[1:]
		}
		return had
	})
}

// simplerTable tries to drop commits without rows, specs, file sizes and partition fields.
func (c *Case) simplerTable(try func(func(*Case) bool), k int) {
	try(func(d *Case) bool {
		t := d.table(k)
		n := len(t.Commits)
		t.Commits = slices.DeleteFunc(t.Commits, func(c Commit) bool { return len(c.Lines) == 0 })
		return len(t.Commits) < n
	})
	for i := range c.table(k).Commits {
		try(func(d *Case) bool { return set(&d.table(k).Commits[i].FileRows, 0) })
		try(func(d *Case) bool { return set(&d.table(k).Commits[i].Spec, 0) })
		try(func(d *Case) bool {
			t := d.table(k)
			if i+1 == len(t.Commits) || t.Commits[i].Spec != t.Commits[i+1].Spec {
				return false
			}
			t.Commits[i].Lines = append(t.Commits[i].Lines, t.Commits[i+1].Lines...)
			t.Commits = slices.Delete(t.Commits, i+1, i+2)
			return true
		})
	}
	for i, spec := range c.table(k).Specs {
		words := strings.Fields(spec)
		for at := range words {
			try(func(d *Case) bool {
				d.table(k).Specs[i] = strings.Join(slices.Delete(slices.Clone(words), at, at+1), " ")
				return true
			})
		}
	}
}
