package fanout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestStreamsAtOneStepMayHaveOtherPlaces resumes two jobs from cursors of different batch sizes,
// which have equal steps and different rows: they share nothing.
//
// spec: wire-39
func TestStreamsAtOneStepMayHaveOtherPlaces(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	var cursors []dataset.Cursor
	for _, rows := range []int{8, 4} {
		s := k.open(t.Context(), t, query(func(q *dataset.Query) { q.BatchRows = rows }))
		for range 4 {
			next(t, s)
		}
		cursors = append(cursors, s.Cursor())
		s.Release()
	}
	require.Equal(t, cursors[0].Step, cursors[1].Step)
	var streams []loader.Stream
	var want [][]string
	for _, at := range cursors {
		resumed := query(func(q *dataset.Query) { q.Cursor = dataset.Cursors{at} })
		want = append(want, k.alone(t, resumed))
		streams = append(streams, k.open(t.Context(), t, resumed))
	}
	shared := k.sharer.Stats().Shared
	got := make([][]string, len(streams))
	for range 10 {
		for i, s := range streams {
			got[i] = append(got[i], next(t, s))
		}
	}
	require.Equal(t, 2, k.sharer.Stats().Groups)
	for i, s := range streams {
		more, err := rest(s)
		require.NoError(t, err)
		require.Equal(t, want[i], append(got[i], more...))
		s.Release()
	}
	require.Equal(t, shared, k.sharer.Stats().Shared)
}

// TestFormsAreNotMixed has a stream with wire: auto begin where another one arrives that decided
// on another form: each keeps its own.
//
// spec: wire-39
func TestFormsAreNotMixed(t *testing.T) {
	t.Parallel()
	k := newKit(t, 800, plenty, func(k *kit) {
		k.id = func(row int) int { return max(0, row-400) } // 400 rows have equal ids
	})
	auto := func(cursor ...dataset.Cursor) dataset.Query {
		return query(func(q *dataset.Query) { q.Lanes, q.Wire, q.Cursor = 1, dataset.WireAuto, cursor })
	}
	first := k.open(t.Context(), t, auto())
	require.NoError(t, first.Begin())
	var before []string
	for {
		before = append(before, next(t, first))
		second := k.open(t.Context(), t, auto(first.Cursor()))
		require.NoError(t, second.Begin())
		if second.Schema().Equal(first.Schema()) {
			second.Release()
			continue
		}
		want := k.alone(t, auto(first.Cursor()))
		shared := k.sharer.Stats().Shared
		var got, more []string
		for second.Next() {
			got, more = append(got, given(second)), append(more, next(t, first))
		}
		require.NoError(t, second.Err())
		require.Equal(t, want, got)
		require.Equal(t, k.alone(t, auto()), append(before, more...))
		require.Equal(t, shared, k.sharer.Stats().Shared)
		second.Release()
		break
	}
	first.Release()
}
