package pintag_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/pintag"
	"github.com/penstock/penstock/loader/dataset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const keep = 8 * 24 * time.Hour

func pinned(snapshot int64) *catalog.Table {
	return &catalog.Table{Name: "ml.events", Pin: dataset.TablePin{UUID: "u", Snapshot: snapshot}}
}

// hold holds a snapshot until the test ends.
func hold(t *testing.T, tags *pintag.Tags, snapshot int64) {
	t.Helper()
	held, err := tags.Hold(t.Context(), pinned(snapshot))
	require.NoError(t, err)
	t.Cleanup(held.Release)
}

// lake is a catalog of one table. Its tags are set as Options describe.
type lake struct {
	mu      sync.Mutex
	until   map[int64]time.Time // when tags expire
	looks   int
	commits int
	fail    error
	slow    time.Duration
	told    []pintag.Look
}

func (l *lake) tags() *pintag.Tags {
	l.until = map[int64]time.Time{}
	return pintag.New(pintag.Options{Keep: keep, Clock: time.Now, Tag: l.tag, Observe: func(look pintag.Look) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = append(l.told, look)
	}})
}

func (l *lake) tag(ctx context.Context, t *catalog.Table, least, wanted time.Time) (time.Time, error) {
	select {
	case <-time.After(l.slow):
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.fail != nil {
		return time.Time{}, l.fail
	}
	if l.until[t.Pin.Snapshot].Before(least) {
		l.until[t.Pin.Snapshot] = wanted
		l.commits++
	}
	return l.until[t.Pin.Snapshot], nil
}

// left returns how long the tag of a snapshot still lasts.
func (l *lake) left(snapshot int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until[snapshot])
}

// seen is what was called and observed so far.
type seen struct {
	looks, commits int
	told           []pintag.Look
}

func (l *lake) seen() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return seen{l.looks, l.commits, slices.Clone(l.told)}
}

func (l *lake) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// run renews in the background until the test ends.
func run(t *testing.T, tags *pintag.Tags) {
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tags.Run(ctx)
	}()
	t.Cleanup(func() { end(); <-ended })
}

// Concurrent holders wait for one commit, and a holder soon after waits for none.
func TestHoldersShareOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lake{slow: time.Second}
		tags := l.tags()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				held, err := tags.Hold(t.Context(), pinned(1))
				defer held.Release()
				require.NoError(t, err)
			})
		}
		group.Wait()
		require.Equal(t, 1, l.seen().looks)
		require.Len(t, l.seen().told, 1)
		require.False(t, l.seen().told[0].Renewal)
		require.Equal(t, keep, time.Until(l.seen().told[0].Until)+time.Second, "a second has passed")
		held, err := tags.Hold(t.Context(), pinned(1))
		require.NoError(t, err)
		require.Equal(t, 1, l.seen().looks)
		held.Release()
		held.Release()
		hold(t, tags, 2)
		require.Equal(t, 2, l.seen().commits, "another snapshot has another tag")

		// A tag that was checked long ago is checked again: it may have been removed.
		time.Sleep(keep / 8)
		l.set(func() { delete(l.until, 1) })
		hold(t, tags, 1)
		require.Equal(t, 3, l.seen().commits)
	})
}

// A holder that waits for another one's check waits as long as its own context, and checks
// by itself if the other one leaves.
func TestWaitersHaveTheirOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lake{slow: time.Minute}
		tags := l.tags()
		first, leave := context.WithCancel(t.Context())
		second, tire := context.WithCancelCause(t.Context())
		tired := errors.New("tired")
		var group sync.WaitGroup
		var got [3]error
		for i, ctx := range []context.Context{first, second, t.Context()} {
			group.Go(func() {
				held, err := tags.Hold(ctx, pinned(1))
				defer held.Release()
				got[i] = err
			})
			synctest.Wait()
		}
		tire(tired)
		time.Sleep(time.Second)
		leave()
		group.Wait()
		require.ErrorIs(t, got[0], context.Canceled)
		require.ErrorIs(t, got[1], tired)
		require.NoError(t, got[2])
		require.Equal(t, 1, l.seen().commits)
	})
}

// All holders that waited for a check share its error, and later ones check again.
func TestRefusalsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := errors.New("no right")
		l := &lake{slow: time.Second, fail: refusal}
		tags := l.tags()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				held, err := tags.Hold(t.Context(), pinned(1))
				if held != nil || !errors.Is(err, refusal) {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		require.Equal(t, 1, l.seen().looks)
		require.ErrorIs(t, l.seen().told[0].Err, refusal)
		require.True(t, l.seen().told[0].Until.IsZero())
		l.set(func() { l.fail = nil })
		hold(t, tags, 1)
	})
}

// While a snapshot is held, its tag always has at least half of Keep left, with few
// commits. After the release it is not checked any more.
//
// spec: pin-11
func TestTagsAreRenewedWhileTheyAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lake{}
		tags := l.tags()
		run(t, tags)
		one, err := tags.Hold(t.Context(), pinned(1))
		require.NoError(t, err)
		two, err := tags.Hold(t.Context(), pinned(1))
		require.NoError(t, err)
		one.Release()
		const hours = 60 * 24
		for range hours {
			time.Sleep(time.Hour)
			require.GreaterOrEqual(t, l.left(1), keep/2-time.Minute)
		}
		require.LessOrEqual(t, l.seen().commits, 1+int(hours*time.Hour/(keep*3/8)))
		require.LessOrEqual(t, l.seen().looks, 1+int(hours*time.Hour/(keep/8)))
		require.Len(t, l.seen().told, l.seen().looks)
		require.True(t, l.seen().told[1].Renewal)

		// The next check restores a tag that others removed.
		l.set(func() { delete(l.until, 1) })
		time.Sleep(keep/8 + 2*time.Minute)
		require.GreaterOrEqual(t, l.left(1), keep/2)

		two.Release()
		looks := l.seen().looks
		time.Sleep(2 * keep)
		require.Equal(t, looks, l.seen().looks)
		require.Negative(t, l.left(1), "it expires by itself")
	})
}

// A snapshot is still tagged when the streams of a job pause for up to half of Keep, at whatever time of the tag's life they
// do, and the next stream makes the tag last again. So it is after a restart, when the server has no memory of it.
//
// spec: pin-16
func TestTagsOutliveGapsBetweenStreams(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &lake{}
			tags := l.tags()
			run(t, tags)
			const epochs = 6
			for epoch := range epochs {
				held, err := tags.Hold(t.Context(), pinned(1))
				require.NoError(t, err)
				time.Sleep(time.Duration(epoch) * keep / (2 * epochs))
				held.Release()
				time.Sleep(keep/2 - 2*time.Minute)
				require.Positive(t, l.left(1), "after epoch %d", epoch)
				if restart {
					until := l.until
					tags = l.tags()
					l.set(func() { l.until = until })
					run(t, tags)
				}
			}
		})
	}
}

// Failed checks are reported and retried with growing waits. Streams continue, and new ones are
// refused once the tag is not known to last.
//
// spec: pin-12
func TestRenewalsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lake{}
		tags := l.tags()
		run(t, tags)
		kept, err := tags.Hold(t.Context(), pinned(1))
		require.NoError(t, err)
		held := time.Now().Add(l.left(1))
		away := errors.New("away")
		l.set(func() { l.fail = away })
		time.Sleep(keep / 2)
		require.Greater(t, l.seen().looks, 10, "often enough to find the catalog again")
		require.Less(t, l.seen().looks, 3*24*2)
		told := l.seen().told
		last := told[len(told)-1]
		require.Equal(t, []any{"ml.events", int64(1), true}, []any{last.Table, last.Snapshot, last.Renewal})
		require.Equal(t, held, last.Until, "until when the tag lasts")
		require.ErrorIs(t, last.Err, away)
		_, err = tags.Hold(t.Context(), pinned(1))
		require.ErrorIs(t, err, away)

		l.set(func() { l.fail = nil })
		time.Sleep(2 * time.Hour)
		require.Greater(t, l.left(1), keep-3*time.Hour)
		kept.Release()
	})
}

func TestTablesWithoutSnapshotsNeedNoTag(t *testing.T) {
	l := &lake{}
	held, err := l.tags().Hold(t.Context(), pinned(dataset.NoSnapshot))
	require.NoError(t, err)
	held.Release()
	require.Zero(t, l.seen().looks)
}
