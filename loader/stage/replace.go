package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
)

// coarse reports whether partitions of a field are replaced as a whole: those of a column or of
// a time. Buckets and truncated values only divide these further.
func coarse(p catalog.PartitionField) bool {
	switch p.Transform.Kind {
	case catalog.Identity, catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		return true
	case catalog.Bucket, catalog.Truncate, catalog.Other:
		return false
	}
	return false
}

// replaces reports whether files of a spec have partitions that can be replaced.
func replaces(spec catalog.Spec) bool { return slices.ContainsFunc(spec, coarse) }

// onlyBuckets is the error for replacing rows of a table without such partitions.
func onlyBuckets(table string) error {
	return fault.InvalidField("mode", "table %s has no partitions of a time or of a column, only buckets: replacing the buckets of the new rows would drop all other rows in them, such as those of other days", table).
		In(table, "").WithRemedy("append the rows, or partition the table by a day or another column too")
}

// replaced returns the files that new rows replace: those in the same partitions, whatever their
// buckets.
func (c *staging) replaced(ctx context.Context, parts []extsort.Partition) ([]string, error) {
	state := c.target.state
	if c.request.Mode != Replace || !state.Table.HasSnapshot() || len(parts) == 0 {
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
		}
	}
	return out, nil
}

// baseOf returns the snapshot that a change of a table is derived from, as commit.Change has it: 0 for none.
func baseOf(s *commit.TableState) int64 {
	if !s.Table.HasSnapshot() {
		return 0
	}
	return s.Table.Pin.Snapshot
}

// Bounds of attempts to replace partitions of a table that others commit to: their number, and the first and the longest wait
// between them, which doubles. Any commit of others ends an attempt, so there must be enough of them beside many writers.
const (
	maxReplaceTries = 64
	replaceWait     = 25 * time.Millisecond
	maxDoublings    = 3
)

// commitReplacing commits a change that removes some files. If others committed to the branch since these were listed, they
// may have added files to the same partitions: the files to remove are listed again.
func (c *staging) commitReplacing(ctx context.Context, change commit.Change, removed []string, parts []extsort.Partition) (commit.Committed, error) {
	for try := 1; ; try++ {
		change.Mode, change.Remove, c.result.Removed = commit.Append, removed, len(removed)
		if len(removed) > 0 {
			change.Mode = commit.Overwrite
		}
		if c.request.Mode == Replace {
			change.Base, change.Unmoved = baseOf(c.target.state), true
		}
		made, err := c.tables.Commit(ctx, change)
		if !change.Unmoved || fault.KindOf(err) != fault.Conflict || commit.Uncertain(err) || try == maxReplaceTries {
			return made, err
		}
		if failed := pauseUpTo(ctx, replaceWait<<min(try-1, maxDoublings)); failed != nil {
			return made, failed
		}
		state, failed := c.tables.State(ctx, c.request.Table, c.request.Branch)
		if failed != nil || state.Spec != c.target.state.Spec || baseOf(state) == change.Base {
			return made, err
		}
		c.target.state = state
		if removed, failed = c.replaced(ctx, parts); failed != nil {
			return made, failed
		}
	}
}

// pauseUpTo waits for a random part of limit.
func pauseUpTo(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(limit)))) //nolint:gosec // it spreads attempts
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// covers reports whether files of a spec have a value for each field of another one whose
// partitions are replaced as a whole.
func covers(of, spec catalog.Spec) bool {
	for _, p := range spec {
		if coarse(p) && sameField(of, p) < 0 {
			return false
		}
	}
	return true
}

// sameField returns the position in a spec of a field with the same values, or -1.
func sameField(of catalog.Spec, p catalog.PartitionField) int {
	return slices.IndexFunc(of, func(o catalog.PartitionField) bool { return o.Source == p.Source && o.Transform == p.Transform })
}

// coarseValues returns a text of the values, in a partition of a spec, of the fields that
// partitions are replaced by.
func coarseValues(spec, of catalog.Spec, values []any) string {
	var text strings.Builder
	for _, p := range spec {
		if coarse(p) {
			fmt.Fprintf(&text, "%T %[1]q %[1]v\x00", values[sameField(of, p)])
		}
	}
	return text.String()
}
