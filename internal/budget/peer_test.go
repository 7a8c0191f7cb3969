package budget_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// enterFrom is enter for a stream of a peer, which pays for what it holds.
func enterFrom(t *testing.T, b *budget.Budget, from string, bytes int64) *entered {
	t.Helper()
	s := &entered{t: t, ended: make(chan error, 1)}
	s.ctx, s.stream = b.Enter(t.Context(), from)
	var err error
	s.held, err = b.ReserveFor(s.ctx, "rows", bytes)
	require.NoError(t, err)
	return s
}

// spec: wire-15
func TestPeersShare(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"alone it may have all": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one := enterFrom(t, b, "x", 100)
			one.end()
		},
		"beside others it waits, and they do not": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, two := enterFrom(t, b, "x", 40), enterFrom(t, b, "x", 0)
			other := enterFrom(t, b, "y", 0)
			two.want(20)
			require.True(t, two.waits())
			other.want(40)
			require.NoError(t, <-other.ended)
			one.held.Shrink(10)
			require.NoError(t, <-two.ended)
			for _, s := range []*entered{one, two, other} {
				s.end()
			}
		},
		"until the others have gone": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, two, other := enterFrom(t, b, "x", 40), enterFrom(t, b, "x", 0), enterFrom(t, b, "y", 0)
			two.want(60)
			require.True(t, two.waits())
			other.end()
			require.NoError(t, <-two.ended)
			one.end()
			two.end()
		},
		"a peer that holds nothing may have more than a share": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			other, one := enterFrom(t, b, "y", 0), enterFrom(t, b, "x", 80)
			one.held.Shrink(40)
			require.Error(t, one.held.Grow(20), "it holds 40 of the 50")
			one.end()
			other.end()
		},
		"when all streams of a peer wait for its share, the oldest goes beyond it": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			old, young, other := enterFrom(t, b, "x", 25), enterFrom(t, b, "x", 25), enterFrom(t, b, "y", 10)
			old.want(10)
			require.True(t, old.waits())
			young.want(10)
			require.NoError(t, <-old.ended)
			require.True(t, young.waits())
			old.end()
			require.NoError(t, <-young.ended)
			young.end()
			other.end()
		},
		"one alone may take more": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, other := enterFrom(t, b, "x", 1), enterFrom(t, b, "y", 0)
			one.want(60)
			require.NoError(t, <-one.ended)
			one.end()
			other.end()
		},
		"when that is in use, the youngest fails": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			old, young, other := enterFrom(t, b, "x", 25), enterFrom(t, b, "x", 25), enterFrom(t, b, "y", 50)
			old.want(10)
			require.True(t, old.waits())
			young.want(10)
			err := <-young.ended
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			require.ErrorContains(t, err, "this client has 50 of the memory budget's 100, and may have 50 beside others")
			require.True(t, old.waits())
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
			other.end()
		},
		"parts keep counting": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, other := enterFrom(t, b, "x", 50), enterFrom(t, b, "y", 0)
			part := one.held.Split(30)
			one.held.Release()
			require.Error(t, one.held.Grow(30))
			part.Release()
			require.NoError(t, one.held.Grow(30))
			one.end()
			other.end()
		},
		"a cancelled waiter takes nothing": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, other := enterFrom(t, b, "x", 0), enterFrom(t, b, "y", 60)
			one.want(50)
			require.True(t, one.waits())
			other.end()
			require.NoError(t, <-one.ended)
			one.held.Release()
			require.NoError(t, one.held.Grow(100), "it is alone, and holds nothing")
			one.end()
		},
	})
}

// TestLent: streams are not at a standstill while the network has memory.
//
// spec: join-56
func TestLent(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"a stream waits for its own batch": func(t *testing.T, b *budget.Budget) {
			one := enter(t, b, 30)
			batch, err := b.Reserve("a batch", 60)
			require.NoError(t, err)
			batch.MarkInFlight()
			batch.MarkInFlight()
			one.want(60)
			require.True(t, one.waits())
			batch.Release()
			require.NoError(t, <-one.ended)
			one.want(60)
			require.Error(t, <-one.ended, "nothing is lent any more")
			one.end()
		},
		"what does not come back is not waited for": func(t *testing.T, b *budget.Budget) {
			one := enter(t, b, 30)
			batch, err := b.Reserve("a batch", 60)
			require.NoError(t, err)
			batch.MarkInFlight()
			one.want(60)
			require.True(t, one.waits())
			began := time.Now()
			batch.MarkStalled()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-one.ended))
			require.Zero(t, time.Since(began))
			batch.MarkStalled()
			batch.Release()
			one.want(60)
			require.NoError(t, <-one.ended)
			one.end()
		},
		"what comes back may be too little": func(t *testing.T, b *budget.Budget) {
			one := enter(t, b, 30)
			cache, err := b.Reserve("a cache", 30)
			require.NoError(t, err)
			batch, err := b.Reserve("a batch", 40)
			require.NoError(t, err)
			batch.MarkInFlight()
			one.want(50)
			require.True(t, one.waits())
			batch.Release()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-one.ended))
			cache.Release()
			one.end()
		},
	})
}

// TestPeersAreRemembered: a host whose streams are parked, and whose batches are on
// their way, begins no second share.
//
// spec: wire-15
func TestPeersAreRemembered(t *testing.T) {
	b := budget.New(100)
	b.SetPeerShare(50)
	other := enterFrom(t, b, "y", 0)
	defer other.stream.Release()
	one := enterFrom(t, b, "x", 50)
	require.Error(t, one.held.Grow(1))
	one.stream.Release() // parked; its batches are still on their way
	two := enterFrom(t, b, "x", 0)
	defer two.stream.Release()
	err := two.held.Grow(50)
	require.Error(t, err)
	one.held.Release()
	require.NoError(t, two.held.Grow(50))
	two.held.Release()
	require.Zero(t, b.Used())
}

func TestPeersTakeTheirShareAtOnce(t *testing.T) {
	worst := int64(0)
	for range 3000 {
		b := budget.New(100)
		b.SetPeerShare(50)
		other := enterFrom(t, b, "y", 0)
		var streams []*entered
		for range 4 {
			streams = append(streams, enterFrom(t, b, "x", 0))
		}
		start := make(chan struct{})
		var all sync.WaitGroup
		for _, s := range streams {
			all.Go(func() { <-start; _ = s.held.Grow(50) })
		}
		close(start)
		all.Wait()
		worst = max(worst, b.Used())
		for _, s := range streams {
			s.held.Release()
			s.stream.Release()
		}
		other.stream.Release()
	}
	require.LessOrEqual(t, worst, int64(50))
}

// TestLentMemoryComesBack: no caller fails between the end of a loan and the release of its
// memory.
func TestLentMemoryComesBack(t *testing.T) {
	failed := 0
	for range 20_000 {
		b := budget.New(100)
		ctx, stream := b.Enter(context.Background(), "")
		sent, _ := b.Reserve("a batch", 60)
		sent.MarkInFlight()
		r, _ := b.Reserve("rows", 0)
		done := make(chan error, 1)
		go func() { done <- r.GrowWait(ctx, 60) }()
		sent.Release()
		if err := <-done; err != nil {
			failed++
		}
		stream.Release()
	}
	require.Zero(t, failed, "the memory came back")
}

// TestFullShareIsNotPressure checks that a full share puts no pressure on other peers, since
// their memory cannot help.
func TestFullShareIsNotPressure(t *testing.T) {
	b := budget.New(100)
	b.SetPeerShare(50)
	other := enterFrom(t, b, "y", 0)
	defer other.stream.Release()
	one := enterFrom(t, b, "x", 50)
	defer one.stream.Release()
	require.Error(t, one.held.Grow(1))
	require.False(t, b.Pressed(), "50 of 100 are free, and parking y's streams gives x nothing")
	one.held.Release()
	require.Zero(t, b.Used())
}

// TestWanted: whose streams wait for their host's share.
func TestWanted(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"": func(t *testing.T, b *budget.Budget) {
			b.SetPeerShare(50)
			one, two, other := enterFrom(t, b, "x", 40), enterFrom(t, b, "x", 0), enterFrom(t, b, "y", 0)
			two.want(20)
			require.True(t, two.waits())
			require.True(t, b.Wanted("x"))
			require.False(t, b.Wanted("y"))
			require.False(t, b.Pressed())
			for _, s := range []*entered{one, two, other} {
				s.end()
			}
			require.False(t, b.Wanted("x"))
			require.False(t, (*budget.Budget)(nil).Wanted("x"))
		},
	})
}
