package loader_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan/explain"
)

// TestSince reads the rows appended to a training table, joined, in one and in two
// shards, and resumes in the middle.
//
// spec: since-1, since-2, since-7, since-8, since-9
func TestSince(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	pair := func(i int) string { return fmt.Sprint(i, " ", i) }
	loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", 100, pair).In(t, w)
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 40, pair).In(t, w)
	table, err := w.Table(t.Context(), "ml.train", dataset.Ref{})
	require.NoError(t, err)
	before := table.Pin.Snapshot
	for from := range 2 {
		rows, err := scenario.Rows(table.Fields, lines(40+10*from, 50+10*from, pair))
		require.NoError(t, err)
		require.NoError(t, w.Append(table, 0, rows, 3))
		rows.Release()
	}
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"},
		Staging: []dataset.Staging{{Table: "features.f"}},
	}
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	defer plans.Close()
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Plans: plans})
	all, err := scenario.Read(context.Background(), l, loadertest.OneShard(2, 8))
	require.NoError(t, err)
	require.Len(t, all[0].Rows(), 60)

	q := loadertest.OneShard(2, 8)
	q.Since = before
	p, err := l.Plan(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, int64(20), p.StoredRows)
	require.NotEqual(t, all[0].Report.Cursor.Plan, p.ID)
	require.Contains(t, explain.Text(p.Plan, dataset.Query{}, nil), "  since "+strconv.FormatInt(before, 10)+": rows that were appended after it\n")
	shards, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	got := scenario.Texts(shards[0].Rows())
	want := lines(40, 60, func(i int) string { return fmt.Sprintf("[%d %d %d]", i, i, i) })
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	require.Equal(t, want, sorted)

	for at, cursor := range shards[0].Cursors {
		require.Equal(t, before, cursor.Since)
		resumed := loadertest.OneShard(2, 8)
		resumed.Cursor = dataset.Cursors{cursor}
		rest, err := scenario.Read(context.Background(), l, resumed)
		require.NoError(t, err)
		given := 0
		for _, b := range shards[0].Batches[:at+1] {
			given += len(b)
		}
		require.Equal(t, got[given:], scenario.Texts(rest[0].Rows()))
		resumed.Since = before + 1
		_, err = l.Plan(t.Context(), resumed)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Contains(t, fault.As(err).Differs, fmt.Sprintf("since (%d, not %d)", before, before+1))
	}

	q.Lanes, q.Shard = 2, dataset.Shard{Index: dataset.AllShards, Of: 2}
	halves, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	both := slices.Concat(scenario.Texts(halves[0].Rows()), scenario.Texts(halves[1].Rows()))
	slices.Sort(both)
	require.Equal(t, want, both)

	now, err := w.Table(t.Context(), "ml.train", dataset.Ref{})
	require.NoError(t, err)
	q = loadertest.OneShard(2, 8)
	q.Since = now.Pin.Snapshot
	nothing, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.Empty(t, nothing[0].Rows())
	require.Zero(t, nothing[0].Report.Rows)
	require.Equal(t, all[0].Schema, nothing[0].Schema)
}

func lines(from, to int, line func(i int) string) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, line(i))
	}
	return out
}
