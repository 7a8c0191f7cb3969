package fanout_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/stream"
)

// queryOf returns a query of one lane.
func queryOf(batchRows int, columns ...string) dataset.Query {
	return query(func(q *dataset.Query) {
		q.Lanes, q.BatchRows = 1, batchRows
		for _, c := range columns {
			q.Columns = append(q.Columns, dataset.Column{Column: c})
		}
	})
}

// droppingNothing makes the staging table unneeded if none of its columns is taken.
func droppingNothing(k *kit) { k.duplicates = rule.DuplicatesFirst }

// readTogether has streams read their first batch one after the other, and the rest at once.
func readTogether(t *testing.T, all []loader.Stream) [][]string {
	t.Helper()
	got, errs := make([][]string, len(all)), make([]error, len(all))
	for i, s := range all {
		got[i] = []string{next(t, s)}
	}
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() {
			defer s.Release()
			more, err := rest(s)
			got[i], errs[i] = append(got[i], more...), err
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return got
}

// TestJobsThatVaryCostOneScan has jobs with all columns and some of them, in batches of 256 and 64 rows, read
// at once. The one that needs most begins first, so that its scan serves them all.
//
// spec: wire-39
func TestJobsThatVaryCostOneScan(t *testing.T) {
	t.Parallel()
	k := newKit(t, 4000, plenty, same)
	var want [][]string
	var queries []dataset.Query
	for _, rows := range []int{256, 64} {
		for _, columns := range [][]string{nil, {"v", "id"}, {"item"}} {
			queries = append(queries, queryOf(rows, columns...))
			want = append(want, k.alone(t, queries[len(queries)-1]))
		}
	}
	k.alone(t, queries[0])
	one := k.open(t.Context(), t, queries[0])
	_, err := rest(one)
	require.NoError(t, err)
	one.Release()
	scans := k.scans()
	var all []loader.Stream
	for _, q := range queries {
		all = append(all, k.open(t.Context(), t, q))
	}
	require.Equal(t, want, readTogether(t, all))
	require.Equal(t, scans, k.scans())
	stats := k.sharer.Stats()
	require.Positive(t, stats.Views)
	require.Zero(t, stats.Widened)
	require.Empty(t, stats.Alone)
	require.Zero(t, k.budget.Used())
}

// TestGroupReadsMoreForStreamThatComes has a stream begin that takes more columns and larger batches than a
// group whose window still has all steps. The group reads more from its front on, and the stream joins
// it when it has read the steps before.
func TestGroupReadsMoreForStreamThatComes(t *testing.T) {
	t.Parallel()
	k := newKit(t, 800, plenty, same)
	narrow, wide := queryOf(8, "item"), queryOf(16)
	wants := [][]string{k.alone(t, narrow), k.alone(t, wide)}
	first := k.open(t.Context(), t, narrow)
	defer first.Release()
	second := k.open(t.Context(), t, wide)
	defer second.Release()
	got := make([][]string, 2)
	for range 5 {
		got[0] = append(got[0], next(t, first))
	}
	for len(got[1]) == 0 || k.sharer.Stats().Groups != 1 {
		got[1] = append(got[1], next(t, second))
		got[0] = append(got[0], next(t, first), next(t, first))
		require.Less(t, len(got[1]), 10)
	}
	require.Equal(t, int64(1), k.sharer.Stats().Widened)
	for i, s := range []loader.Stream{first, second} {
		more, err := rest(s)
		require.NoError(t, err)
		require.Equal(t, wants[i], append(got[i], more...))
	}
}

// TestGroupReadsLessWhenMoreIsNotNeeded checks that a group's reader continues without columns that no
// member has taken for some steps.
func TestGroupReadsLessWhenMoreIsNotNeeded(t *testing.T) {
	t.Parallel()
	k := newKit(t, 2400, plenty, droppingNothing)
	narrow := queryOf(8, "item")
	want := k.alone(t, narrow)
	wide, left := k.open(t.Context(), t, queryOf(8)), k.open(t.Context(), t, narrow)
	next(t, wide)
	got := []string{next(t, left)}
	wide.Release()
	for range 100 {
		got = append(got, next(t, left))
	}
	k.set(func(_ context.Context, table string) error {
		if table == "features.f" {
			return fault.New(fault.Internal, "%s is not needed any more", table)
		}
		return nil
	})
	more, err := rest(left)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	require.Empty(t, k.sharer.Stats().Alone)
	left.Release()
}

// TestStreamDoesNotFailByColumnsOfOthers makes a table unreadable that only one of two streams needs.
func TestStreamDoesNotFailByColumnsOfOthers(t *testing.T) {
	t.Parallel()
	for name, narrow := range map[string]dataset.Query{
		"fewer columns":                     queryOf(8, "item"),
		"fewer columns and smaller batches": queryOf(4, "item"),
	} {
		k := newKit(t, 400, plenty, droppingNothing)
		wide := queryOf(8)
		want := k.alone(t, narrow)
		broken := fault.New(fault.Corrupt, "the table is broken")
		all := []loader.Stream{k.open(t.Context(), t, wide), k.open(t.Context(), t, narrow)}
		for _, s := range all {
			next(t, s)
		}
		k.set(func(_ context.Context, table string) error {
			if table == "features.f" {
				return broken
			}
			return nil
		})
		got, err := rest(all[1])
		require.NoError(t, err, name)
		require.Equal(t, want[1:], got, name)
		_, err = rest(all[0])
		require.ErrorIs(t, err, broken, name)
		require.Equal(t, int64(1), k.sharer.Stats().Alone[fanout.Failing], name)
		for _, s := range all {
			s.Release()
		}
		require.Zero(t, k.budget.Used())
	}
}

// TestStreamDoesNotFailByDuplicatesThatOthersAskFor has a duplicate key, which fails the streams that ask for a
// value of the staging table, and no other that shares batches with them.
//
// spec: join-109
func TestStreamDoesNotFailByDuplicatesThatOthersAskFor(t *testing.T) {
	t.Parallel()
	for _, join := range []rule.Kind{rule.Left, rule.Inner} {
		for first := range 2 {
			k := newKit(t, 400, plenty, func(k *kit) { k.twice, k.join, k.duplicates = 150, join, rule.DuplicatesError })
			queries := []dataset.Query{queryOf(8, "item", "v"), queryOf(8, "item")}
			want := k.alone(t, queries[1])
			var all [2]loader.Stream
			for _, i := range []int{first, 1 - first} {
				all[i] = k.open(t.Context(), t, queries[i])
			}
			for _, s := range all {
				next(t, s)
			}
			got, err := rest(all[1])
			require.NoError(t, err)
			require.Equal(t, want[1:], got)
			_, err = rest(all[0])
			require.ErrorContains(t, err, "several rows of f have the key id=150")
			for _, s := range all {
				s.Release()
			}
			require.Zero(t, k.budget.Used())
		}
	}
}

// TestStreamsThatCannotBeReadTogetherShareNothing has streams read at once that no reader can serve together:
// columns of one name that differ, and sizes of which none is a multiple of the other or that are too far
// apart.
func TestStreamsThatCannotBeReadTogetherShareNothing(t *testing.T) {
	t.Parallel()
	renamed := queryOf(8)
	renamed.Columns = []dataset.Column{{Column: "id", Name: "item"}}
	for name, queries := range map[string][2]dataset.Query{
		"names": {queryOf(8), renamed},
		"sizes": {queryOf(8), queryOf(12)},
		"far":   {queryOf(2), queryOf(64)},
	} {
		k := newKit(t, 400, plenty, same)
		var want [][]string
		var all []loader.Stream
		for _, q := range queries {
			want = append(want, k.alone(t, q))
			all = append(all, k.open(t.Context(), t, q))
		}
		require.Equal(t, want, readTogether(t, all), name)
		require.Zero(t, k.sharer.Stats().Views, name)
	}
}

// TestTooLargeTogether has a limit on batches that the columns of two streams exceed together.
func TestTooLargeTogether(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{k.dataset()}, Catalog: k.World, Scan: k.scan, Budget: k.budget, MaxBatchBytes: 16*8 + 64,
	})
	k.loader = k.sharer.Over(l)
	var want [][]string
	var all []loader.Stream
	for _, q := range []dataset.Query{queryOf(16, "item"), queryOf(16, "id")} {
		want = append(want, k.alone(t, q))
		all = append(all, k.open(t.Context(), t, q))
	}
	require.Equal(t, want, readTogether(t, all))
	require.Zero(t, k.sharer.Stats().Views)
	require.Positive(t, k.sharer.Stats().Alone[fanout.Lacking])
}

// TestReportsOfJobsThatVary compares the reports of jobs of which only some take the columns of a staging
// table that have defaults.
func TestReportsOfJobsThatVary(t *testing.T) {
	t.Parallel()
	k := newKit(t, 1000, plenty, func(k *kit) { k.defaults = true })
	var queries []dataset.Query
	for _, rows := range []int{256, 64} {
		for _, columns := range [][]string{nil, {"v"}, {"item"}} {
			queries = append(queries, queryOf(rows, columns...))
		}
	}
	reportOf := func(s loader.Stream) stream.Report {
		r := s.Report()
		for name, of := range r.Staging {
			of.BytesRead, of.Shared, of.Amplification, of.Strategy = 0, 0, 0, ""
			r.Staging[name] = of
		}
		return r
	}
	var want []stream.Report
	var all []loader.Stream
	for _, q := range queries {
		p, err := k.loader.Plan(t.Context(), q)
		require.NoError(t, err)
		alone, err := k.loader.Loader.Open(t.Context(), p, loader.StreamOptions{})
		require.NoError(t, err)
		_, err = rest(alone)
		require.NoError(t, err)
		want = append(want, reportOf(alone))
		alone.Release()
		all = append(all, k.open(t.Context(), t, q))
	}
	for _, s := range all {
		next(t, s)
	}
	for i, s := range all {
		_, err := rest(s)
		require.NoError(t, err)
		require.Equal(t, want[i], reportOf(s), "%+v", queries[i].Reading)
		s.Release()
	}
	require.Positive(t, want[0].Staging["f"].Defaulted)
	require.Zero(t, want[2].Staging["f"].Defaulted)
	require.Positive(t, k.sharer.Stats().Views)
}

// TestMinMatchOfJobsThatVary checks that jobs with too few matches fail at the batch at which they fail alone.
func TestMinMatchOfJobsThatVary(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12_000, plenty, func(k *kit) { k.BatchRows, k.minimum = 1000, 0.9 })
	var all []loader.Stream
	var wants [][]string
	for _, q := range []dataset.Query{queryOf(1024), queryOf(64, "v"), queryOf(256, "item")} {
		p, err := k.loader.Plan(t.Context(), q)
		require.NoError(t, err)
		alone, err := k.loader.Loader.Open(t.Context(), p, loader.StreamOptions{})
		require.NoError(t, err)
		want, err := rest(alone)
		require.ErrorContains(t, err, "where min_match asks for 0.9")
		wants = append(wants, want)
		alone.Release()
		all = append(all, k.open(t.Context(), t, q))
	}
	got := make([][]string, len(all))
	for i, s := range all {
		got[i] = append(got[i], next(t, s))
	}
	for i, s := range all {
		more, err := rest(s)
		require.ErrorContains(t, err, "where min_match asks for 0.9")
		require.Equal(t, wants[i], append(got[i], more...))
		s.Release()
	}
	require.Positive(t, k.sharer.Stats().Views)
}

// TestIndexedPartsHaveTheirRows reads indexed batches in which rows of one request are not adjacent, in two
// sizes.
func TestIndexedPartsHaveTheirRows(t *testing.T) {
	t.Parallel()
	k := newKit(t, 2000, plenty, func(k *kit) { k.id = func(row int) int { return row * 7 % 50 } })
	indexed := func(rows int, columns ...string) dataset.Query {
		q := queryOf(rows, columns...)
		q.Wire = dataset.WireIndexed
		return q
	}
	var want [][]string
	var all []loader.Stream
	for _, q := range []dataset.Query{indexed(256), indexed(64), indexed(128, "v")} {
		want = append(want, k.alone(t, q))
		all = append(all, k.open(t.Context(), t, q))
	}
	require.Equal(t, want, readTogether(t, all))
	require.Positive(t, k.sharer.Stats().Views)
	require.Zero(t, k.budget.Used())
}

// TestSlicesEndWithRanges reads rows whose number the plan does not know, in two sizes: after the last row of
// a range, the cursor is at the next range.
func TestSlicesEndWithRanges(t *testing.T) {
	t.Parallel()
	k := newKit(t, 1000, plenty, func(k *kit) { k.join = rule.Inner })
	wants := [][]string{k.alone(t, queryOf(64)), k.alone(t, queryOf(4))}
	large, small := k.open(t.Context(), t, queryOf(64)), k.open(t.Context(), t, queryOf(4))
	defer large.Release()
	defer small.Release()
	var got [2][]string
	for large.Next() { // in turns, so that neither ends before they share
		got[0] = append(got[0], given(large))
		for range 16 {
			if small.Next() {
				got[1] = append(got[1], given(small))
			}
		}
	}
	require.NoError(t, large.Err())
	require.NoError(t, small.Err())
	require.Equal(t, wants[0], got[0])
	require.Equal(t, wants[1], got[1])
	require.Positive(t, k.sharer.Stats().Views)
}
