package coverage_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// planOf returns a plan of tables with an entry, whose days are aligned.
func planOf(t *testing.T, tables []*catalog.Table, files plan.Files) *plan.Plan {
	t.Helper()
	entry := plantest.Entry()
	entry.Align = &dataset.Align{Training: "day", Staging: "day"}
	return planOfEntry(t, entry, tables, files)
}

// planOfEntry returns a plan of tables with an entry.
func planOfEntry(t *testing.T, entry dataset.Staging, tables []*catalog.Table, files plan.Files) *plan.Plan {
	t.Helper()
	p, err := plantest.Joined(plantest.Homefeed(entry), tables, files, dataset.Query{})
	require.NoError(t, err)
	return p
}

// days returns the days from 1 to n.
func days(n int64) (out []int64) {
	for day := range n {
		out = append(out, day+1)
	}
	return out
}

// Rows are those of the files by day and bucket, and a day without staging rows is listed.
//
// spec: ui-14
func TestDaysWithoutStagingRows(t *testing.T) {
	tables, files := plantest.Days(days(3), []int64{1, 3})
	got := coverage.Of(planOf(t, tables, files))
	require.Equal(t, "day", got.Partition)
	require.Equal(t, "ml.train", got.Table)
	require.Equal(t, []coverage.Part{{From: "1", To: "1"}, {From: "2", To: "2"}, {From: "3", To: "3"}}, got.Parts)
	require.Equal(t, []coverage.Buckets{{From: 0, To: 0}, {From: 1, To: 1}}, got.Buckets)
	require.Equal(t, coverage.Grid{{100, 100}, {100, 100}, {100, 100}}, got.Training)
	e := got.Staging[0]
	require.Equal(t, "features.history", e.Table)
	require.Equal(t, int64(7), e.Snapshot)
	require.Equal(t, coverage.Grid{{30, 30}, {0, 0}, {30, 30}}, e.Joined, "3 buckets of 10 rows are joined with each of 2")
	require.True(t, e.Shared)
	require.Equal(t, int64(60), e.Rows)
	require.Equal(t, []string{"2"}, e.Empty)
	require.Equal(t, []int64{1, 200, 0}, []int64{int64(e.EmptyParts), e.EmptyRows, int64(e.Gaps)})
}

// A bucket without staging rows is a gap of its day.
//
// spec: ui-14
func TestBucketsWithoutStagingRows(t *testing.T) {
	tables, files := plantest.Days(days(2), nil)
	tables[1].Specs[0] = catalog.Spec{plantest.Partitioned("day", 2, catalog.Identity, 0), plantest.Partitioned("b", 1, catalog.Bucket, 2)}
	for day := range int64(2) {
		for b := range 1 + day {
			files.Staging[0].Files = append(files.Staging[0].Files, plantest.Staged(fmt.Sprint("s", day, b), 0, 1000, day+1, b))
		}
	}
	e := coverage.Of(planOf(t, tables, files)).Staging[0]
	require.Equal(t, coverage.Grid{{10, 0}, {10, 10}}, e.Joined)
	require.False(t, e.Shared)
	require.Equal(t, 1, e.Gaps)
	require.Empty(t, e.Empty)
}

// Without aligned partitions, staging rows are joined with the training rows of all days.
func TestUnalignedEntries(t *testing.T) {
	tables, files := plantest.Days(days(2), []int64{1})
	e := coverage.Of(planOfEntry(t, plantest.Entry(), tables, files)).Staging[0]
	require.Equal(t, coverage.Grid{{30, 30}, {30, 30}}, e.Joined)
	require.True(t, e.Shared)
	require.Empty(t, e.Empty)
}

// Neighbors count together if there are many, no row is lost, and days are found as they are.
//
// spec: ui-14
func TestManyDaysAndBuckets(t *testing.T) {
	const many, missing = 300, 111
	tables, files := plantest.Days(days(many), append(days(missing-1), days(many)[missing:]...))
	tables[0].Specs[0][1].Transform.N, tables[1].Specs[0][1].Transform.N = 100, 3
	for day := range int64(many) {
		for b := int64(2); b < 100; b++ {
			files.Training.Files = append(files.Training.Files, plantest.File(fmt.Sprint("t", day, "/", b), day+1, b, 100, 1))
		}
	}
	p := planOf(t, tables, files)
	got := coverage.Of(p)
	require.Len(t, got.Parts, 100)
	require.Equal(t, coverage.Part{From: "1", To: "3"}, got.Parts[0])
	require.Len(t, got.Buckets, 50)
	require.Equal(t, coverage.Buckets{From: 98, To: 99}, got.Buckets[49])
	sum := int64(0)
	for _, row := range got.Training {
		require.Len(t, row, 50)
		for _, n := range row {
			sum += n
		}
	}
	require.Equal(t, p.StoredRows, sum)
	require.Equal(t, []string{"111"}, got.Staging[0].Empty)
	require.Zero(t, got.Staging[0].Gaps)
}

// Files of a spec without the field, and nulls, are at the end. A table without partitions has one part.
func TestOtherFiles(t *testing.T) {
	tables, files := plantest.Mixed()
	tables[0].Specs[2] = catalog.Spec{plantest.Partitioned("bucket", 1, catalog.Bucket, 4)}
	files.Training.Files = append(files.Training.Files, plantest.File("null", nil, int64(1), 5, 9), plantest.File("ten", int64(10), int64(1), 5, 9))
	old := plantest.File("old", int64(0), int64(0), 7, 1)
	old.Spec, old.Partition = 2, []any{int64(0)}
	files.Training.Files = append(files.Training.Files, old)
	tables[0].Specs[3] = tables[0].Specs[0]
	newest := plantest.File("new", int64(9), int64(0), 7, 1)
	newest.Spec = 3
	files.Training.Files = append(files.Training.Files, newest)
	var names []string
	for _, part := range coverage.Of(planOfEntry(t, plantest.Entry(), tables, files)).Parts {
		names = append(names, part.From)
	}
	require.Equal(t, []string{"1", "2", "9", "10", "null", "files without day"}, names)

	tables, files = plantest.Mixed()
	tables[0].Specs[1], tables[0].Specs[0] = nil, nil
	for i := range files.Training.Files {
		files.Training.Files[i].Partition = nil
	}
	got := coverage.Of(planOfEntry(t, plantest.Entry(), tables, files))
	require.Equal(t, []coverage.Part{{From: "all rows", To: "all rows"}}, got.Parts)
	require.Equal(t, []coverage.Buckets{{From: -1, To: -1}}, got.Buckets)
	require.Empty(t, got.Partition)
	require.Empty(t, coverage.Of(planOfEntry(t, plantest.Entry(), tables, plan.Files{Staging: make([]plan.Listing, 1)})).Parts)
}

// Matches are counted in the places of the splits, and a copy does not change.
func TestMatches(t *testing.T) {
	tables, files := plantest.Days(days(2), days(2))
	p := planOf(t, tables, files)
	m := coverage.NewTally(p)
	for i := range p.Splits {
		m.Add(i, 10, int64(i))
	}
	before := m.Copy()
	m.Add(0, 5, 5)
	require.Equal(t, coverage.Grid{{10, 10}, {10, 10}}, before.Matches().Rows)
	require.Equal(t, coverage.Grid{{0, 1}, {2, 3}}, before.Matches().Matched)
	require.Equal(t, coverage.Grid{{15, 10}, {10, 10}}, m.Matches().Rows)
}
