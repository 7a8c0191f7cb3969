package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/transaction"
)

// coarse reports whether a field defines the partitions that are replaced as a whole. Columns and
// times do; buckets and truncated values only subdivide these partitions.
func coarse(p catalog.PartitionField) bool {
	switch p.Transform.Kind {
	case catalog.Identity, catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		return true
	case catalog.Bucket, catalog.Truncate, catalog.Other:
		return false
	}
	return false
}

// replaces reports whether a spec has partitions that can be replaced as a whole.
func replaces(spec catalog.Spec) bool { return slices.ContainsFunc(spec, coarse) }

// onlyBuckets returns the error for replacing partitions of a table without coarse fields.
func onlyBuckets(table string) error {
	return fault.InvalidField("mode", "table %s has no partitions of a time or of a column, only buckets: replacing the buckets of the new rows would drop all other rows in them, such as those of other days", table).
		In(table, "").WithRemedy("append the rows, or partition the table by a day or another column too")
}

// replaced returns the files that the new rows replace: all files in the same partitions,
// regardless of buckets. It counts the files and their rows in the result. It fails if shrinks
// returns an error.
func (c *staging) replaced(ctx context.Context, parts []extsort.Partition) ([]string, error) {
	state := c.target.State
	c.result.Removed, c.result.RemovedRows = 0, 0
	if !c.request.Mode.Replaces() || !state.Table.HasSnapshot() || len(parts) == 0 {
		return nil, nil
	}
	spec := state.Table.Specs[state.Spec]
	touched := map[string]bool{}
	for _, p := range parts {
		touched[coarseValues(spec, spec, p.Values)] = true
	}
	files, err := c.tables.Files(ctx, state.Table, nil, nil)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		of := state.Table.Specs[f.Spec]
		if !covers(of, spec) {
			return nil, fault.New(fault.Invalid, "file %s of table %s is of an older partition spec that does not tell which partition it replaces", f.Location, c.request.Table).
				In(c.request.Table, f.Location).WithRemedy("rewrite the table's files to its current partition spec, then replace partitions")
		}
		if touched[coarseValues(spec, of, f.Partition)] {
			out = append(out, f.Location)
			c.result.Removed++
			c.result.RemovedRows += f.Rows
		}
	}
	return out, c.shrinks()
}

// minKept is the maximum ratio of replaced rows to new rows.
const minKept = 2

// shrinks returns an error if the new rows are less than half as many as the rows that they
// replace, unless the request allows this. The new rows may cover only a part of the partitions.
func (c *staging) shrinks() error {
	if c.request.AllowShrink || c.result.Rows*minKept >= c.result.RemovedRows {
		return nil
	}
	return fault.InvalidField("mode", "%s would replace %s of table %s: fewer than half", fault.Count(c.result.Rows, "row"), fault.Count(c.result.RemovedRows, "row"), c.request.Table).
		In(c.request.Table, "").WithRemedy("stage all rows of the partitions, append the rows, or allow it with allow_shrink (--allow-shrink)")
}

// commitFiles commits the written files. Whenever another writer commits to the branch first,
// commitFiles lists the files to replace again, since the partitions may have new files, and
// compares the keys with those of new files.
func (c *staging) commitFiles(ctx context.Context, change commit.Change, files *datafile.Files, removed []string, parts []extsort.Partition) (commit.Committed, error) {
	replaces := c.request.Mode.Replaces()
	unmoved := replaces || len(c.checks) > 0
	return transaction.Transaction{
		Tables: c.tables, Table: c.request.Table, Branch: c.request.Branch, First: c.target.State, Once: !unmoved && c.creates == nil, Discard: files.Discard,
		Prepare: func(ctx context.Context, a *transaction.Attempt) (err error) {
			if a.State != c.target.State {
				if removed, err = c.again(ctx, a.State, &change, parts); err != nil {
					return c.commitsEarlier(ctx, a, err)
				}
			}
			change.Mode, change.Remove = commit.Append, removed
			if len(removed) > 0 {
				change.Mode = commit.Overwrite
			}
			if unmoved {
				change.Base, change.Unmoved = a.State.Base(), true
			}
			a.Commit = func(ctx context.Context) (commit.Committed, error) { return c.tables.Commit(ctx, change) }
			return nil
		},
	}.Run(ctx)
}

// again prepares another attempt to commit to a later state of the table: it returns the files that
// the new rows replace, and compares the keys. If another call created the table, the change no longer
// does.
func (c *staging) again(ctx context.Context, state *commit.TableState, change *commit.Change, parts []extsort.Partition) ([]string, error) {
	if c.creates != nil {
		if err := c.adopt(state, (*datafile.Target).SameFiles); err != nil {
			return nil, err
		}
		change.Creates, change.UUID = nil, state.Table.Pin.UUID
	}
	removed, err := c.replacedAt(ctx, state, parts)
	if err == nil {
		err = c.compareWithTable(ctx, state, removed, parts)
	}
	return removed, err
}

// replacedAt returns the files that new rows replace in a later state of the table.
func (c *staging) replacedAt(ctx context.Context, state *commit.TableState, parts []extsort.Partition) ([]string, error) {
	if state.Spec != c.target.State.Spec {
		return nil, fault.New(fault.Conflict, "the partition spec of table %s was changed while rows were written", c.request.Table).In(c.request.Table, "").
			WithRemedy("repeat the call")
	}
	c.target.State = state
	return c.replaced(ctx, parts)
}

// covers reports whether files of the first spec have a value for each coarse field of the second.
func covers(of, spec catalog.Spec) bool {
	for _, p := range spec {
		if coarse(p) && of.SameField(p) < 0 {
			return false
		}
	}
	return true
}

// coarseValues returns a text that identifies a partition by its values for the coarse fields of
// spec. values are the partition's values for the fields of the spec `of`.
func coarseValues(spec, of catalog.Spec, values []any) string {
	var text strings.Builder
	for _, p := range spec {
		if coarse(p) {
			fmt.Fprintf(&text, "%T %[1]q %[1]v\x00", values[of.SameField(p)])
		}
	}
	return text.String()
}
