package waits_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/waits"
)

// clock is a time that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// requireTimes compares the times of a stream, in seconds by cause, and what it waits for.
func requireTimes(t *testing.T, w *waits.Waits, now string, want map[waits.Cause]int) {
	t.Helper()
	all, c, waiting := w.Now()
	name := ""
	if waiting {
		name = c.String()
	}
	require.Equal(t, now, name)
	for _, c := range waits.Causes() {
		require.Equal(t, time.Duration(want[c])*time.Second, all.Of(c), c.String())
	}
}

// TestWaitsAtTheSameTimeCountOnce begins and ends waits while time passes.
func TestWaitsAtTheSameTimeCountOnce(t *testing.T) {
	t.Parallel()
	c := &clock{}
	w := waits.New(c.read)
	ctx := waits.With(context.Background(), w)
	c.add(time.Second) // work
	memory := waits.Begin(ctx, waits.Memory)
	c.add(time.Second)
	requireTimes(t, w, "memory", map[waits.Cause]int{waits.Memory: 1})
	trainer := waits.Begin(ctx, waits.Trainer)
	c.add(2 * time.Second)
	requireTimes(t, w, "trainer", map[waits.Cause]int{waits.Memory: 1, waits.Trainer: 2})
	trainer()
	twice := waits.Begin(ctx, waits.Memory)
	c.add(4 * time.Second)
	memory()
	c.add(time.Second)
	twice()
	c.add(time.Second)
	requireTimes(t, w, "", map[waits.Cause]int{waits.Memory: 6, waits.Trainer: 2})
}

// TestReadingAheadIsNoWait has a goroutine wait for storage while the stream does not need its rows.
func TestReadingAheadIsNoWait(t *testing.T) {
	t.Parallel()
	c := &clock{}
	w := waits.New(c.read)
	reads := w.Begin(waits.Storage)
	c.add(time.Second)
	requireTimes(t, w, "", nil)
	needs := w.AwaitRows()
	c.add(2 * time.Second)
	requireTimes(t, w, "storage", map[waits.Cause]int{waits.Storage: 2})
	reads()
	c.add(time.Second) // the rows are decoded
	needs()
	requireTimes(t, w, "", map[waits.Cause]int{waits.Storage: 2})
}

// TestStreamsWaitAsTheirReader has two streams wait for a reader that they share, one of them later.
func TestStreamsWaitAsTheirReader(t *testing.T) {
	t.Parallel()
	c := &clock{}
	one, two := waits.New(c.read), waits.New(c.read)
	reader := one.Shared()
	memory := reader.Begin(waits.Memory)
	c.add(time.Second) // for no stream
	first := one.Follow(reader)
	c.add(time.Second)
	second := two.Follow(reader)
	c.add(time.Second)
	requireTimes(t, two, "memory", map[waits.Cause]int{waits.Memory: 1})
	memory()
	c.add(time.Second)
	requireTimes(t, one, "", map[waits.Cause]int{waits.Memory: 2})
	first()
	second()
	trainer := one.Begin(waits.Trainer)
	defer reader.Begin(waits.Memory)()
	c.add(time.Second)
	trainer()
	requireTimes(t, one, "", map[waits.Cause]int{waits.Memory: 2, waits.Trainer: 1})
	requireTimes(t, two, "", map[waits.Cause]int{waits.Memory: 1})
}

// TestContextsWithoutWaitsCountNothing calls everything on the nil value.
func TestContextsWithoutWaitsCountNothing(t *testing.T) {
	t.Parallel()
	w := waits.Of(context.Background())
	waits.Begin(context.Background(), waits.Slot)()
	w.AwaitRows()()
	w.Follow(waits.New(time.Now))()
	waits.New(time.Now).Follow(w.Shared())()
	requireTimes(t, w, "", nil)
	require.Empty(t, waits.Cause(99).String())
}

// TestEachWaitIsSeen checks that the waits that are passed on add up to the totals, for a stream that waits itself and for readers
// that it follows.
//
// spec: trace-7
func TestEachWaitIsSeen(t *testing.T) {
	t.Parallel()
	c := &clock{}
	one, two := waits.New(c.read), waits.New(c.read)
	type seen map[waits.Cause]time.Duration
	record := func(to seen) waits.Seen {
		return func(cause waits.Cause, begin, end time.Time) { to[cause] += end.Sub(begin) }
	}
	first, second := seen{}, seen{}
	one.Observe(record(first))
	two.Observe(record(second))
	reader := one.Shared()
	ahead := reader.Shared()
	step := func() { c.add(time.Second) }

	slot := one.Begin(waits.Slot)
	step()
	one.Now()
	step()
	slot()
	memory := reader.Begin(waits.Memory)
	step() // for no stream
	follow := one.Follow(reader)
	step()
	also := two.Follow(reader)
	step()
	memory()
	nested := reader.Follow(ahead)
	stored, rows := ahead.Begin(waits.Storage), ahead.AwaitRows()
	step()
	stored()
	rows()
	nested()
	follow()
	also()
	trainer := two.Begin(waits.Trainer)
	step()
	trainer()
	for w, got := range map[*waits.Waits]seen{one: first, two: second} {
		all, _, _ := w.Now()
		for _, cause := range waits.Causes() {
			require.Equal(t, all.Of(cause), got[cause], cause.String())
		}
	}
	require.Equal(t, seen{waits.Slot: 2 * time.Second, waits.Memory: 2 * time.Second, waits.Storage: time.Second}, first)
	require.Equal(t, seen{waits.Memory: time.Second, waits.Storage: time.Second, waits.Trainer: time.Second}, second)
}
