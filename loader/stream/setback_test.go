package stream_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestStreamsSetBackGiveTheSame takes the memory away at random steps, sets the streams back, and
// checks that rows, their order, cursors and reports are the same, except for what was read again.
//
// spec: wire-52
func TestStreamsSetBackGiveTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(21, 22))
	back, changed := 0, 0
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 40, 2000), func(c *scenario.Case) {
		if changed++; changed%2 == 0 {
			loadertest.KeepAllRows(c)
		}
	}) {
		c.ScanRows = 1 + random.IntN(9)
		loadertest.Resize(&c.Query, c.Query.Lanes*(1+random.IntN(6)))
		m := loadertest.Made(t, c)
		limit := budget.New(loadertest.Plenty)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{m.Dataset}, Catalog: m.World, Scan: m.Scan, Budget: limit})
		want, err := scenario.Read(context.Background(), l, c.Query)
		require.NoError(t, err, c.Name)
		got, err := scenario.ReadAs(context.Background(), l, c.Query, func(s loader.Stream) loader.Stream {
			return &pinchedStream{Stream: s, t: t, budget: limit, random: random, parks: random.IntN(2) == 0, back: &back}
		})
		require.NoError(t, err, c.Name)
		requireSameStreams(t, c, want, got)
		require.Zero(t, limit.Used())
	}
	require.Greater(t, back, 200/share)
}

// pinchedStream is a stream for which memory is short at random steps, since others hold it.
type pinchedStream struct {
	loader.Stream
	t      *testing.T
	budget *budget.Budget
	random *rand.Rand
	parks  bool
	back   *int // how often a stream was set back
}

// Begin implements loader.Stream.
func (s *pinchedStream) Begin() error {
	s.pinched(func() bool { return s.Stream.Begin() == nil })
	return s.Err()
}

// Next implements array.RecordReader.
func (s *pinchedStream) Next() bool {
	if s.parks && s.random.IntN(3) == 0 {
		s.Park(false)
	}
	return s.pinched(s.Stream.Next)
}

// pinched calls step, sometimes with little memory, again after each failure.
func (s *pinchedStream) pinched(step func() bool) bool {
	for s.random.IntN(3) > 0 {
		release := s.pinch()
		some := step()
		release()
		if some || s.Err() == nil {
			return some
		}
		require.True(s.t, budget.Crowded(s.Err()), "%v", s.Err())
		require.True(s.t, s.SetBack())
		require.NoError(s.t, s.Err())
		require.False(s.t, s.SetBack(), "it has not failed")
		*s.back++
	}
	return step()
}

// pinch takes most of the memory for a stream that waits for others, until release.
func (s *pinchedStream) pinch() (release func()) {
	ctx, open := s.budget.Enter(context.Background(), "other")
	waits := budget.MarkBlocked(ctx)
	held, err := s.budget.Reserve("another stream", s.budget.Limit()-s.budget.Used()-s.random.Int64N(1<<s.random.IntN(16)))
	require.NoError(s.t, err)
	return func() {
		held.Release()
		waits.Release()
		open.Release()
	}
}
