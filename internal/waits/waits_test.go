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

// TestWorkIsWhatIsLeft has a stream work at several things, wait meanwhile, and read by a reader that works too.
//
// spec: status-15
func TestWorkIsWhatIsLeft(t *testing.T) {
	t.Parallel()
	c := &clock{}
	w := waits.New(c.read)
	step := func() { c.add(time.Second) }
	requireAll := func(want map[waits.Cause]int) {
		t.Helper()
		all, _, _ := w.Now()
		for _, kind := range append(waits.Causes(), waits.Works()...) {
			require.Equal(t, time.Duration(want[kind])*time.Second, all.Of(kind), kind.String())
		}
	}
	join := w.Begin(waits.Join)
	step()
	compute := w.Begin(waits.Compute)
	step()
	memory := w.Begin(waits.Memory)
	step()
	memory()
	compute()
	rows, deletes := w.AwaitRows(), w.Begin(waits.Deletes)
	step()
	deletes()
	step() // it decodes
	rows()
	requireAll(map[waits.Cause]int{waits.Join: 1, waits.Compute: 1, waits.Memory: 1, waits.Deletes: 1, waits.Decode: 1})
	reader := w.Shared()
	build := reader.Begin(waits.Build)
	step() // the join goes on
	follow := w.Follow(reader)
	step()
	requireAll(map[waits.Cause]int{waits.Join: 2, waits.Compute: 1, waits.Memory: 1, waits.Deletes: 1, waits.Decode: 1, waits.Build: 1})
	build()
	follow()
	join()
	step() // nothing that is known
	requireAll(map[waits.Cause]int{waits.Join: 2, waits.Compute: 1, waits.Memory: 1, waits.Deletes: 1, waits.Decode: 1, waits.Build: 1})
}

// TestBlockedConnectionsAreTheNetwork has a stream wait for its client while the connection takes no bytes.
//
// spec: status-3
func TestBlockedConnectionsAreTheNetwork(t *testing.T) {
	t.Parallel()
	c, blocked, now := &clock{}, time.Duration(0), false
	w := waits.New(c.read)
	w.Connected(func() (time.Duration, bool) { return blocked, now })
	blocked = time.Minute // of other streams
	end := w.Begin(waits.Trainer)
	c.add(3 * time.Second)
	requireTimes(t, w, "trainer", map[waits.Cause]int{waits.Trainer: 3})
	c.add(3 * time.Second)
	blocked, now = blocked+2*time.Second, true
	requireTimes(t, w, "network", map[waits.Cause]int{waits.Trainer: 4, waits.Network: 2})
	end()
	blocked += time.Second
	c.add(3 * time.Second)
	requireTimes(t, w, "", map[waits.Cause]int{waits.Trainer: 4, waits.Network: 2})
}

// TestReadsAreCounted counts the reads of a stream, and those of a reader while it follows it.
//
// spec: status-16
func TestReadsAreCounted(t *testing.T) {
	t.Parallel()
	c := &clock{}
	w := waits.New(c.read)
	ctx := waits.With(context.Background(), w)
	one := waits.Reads{Requests: 2, Failed: 1, Bytes: 8, Took: 5, First: 4, Delayed: 3, Sought: 7, Found: 6}
	waits.Read(ctx, one)
	reader := w.Shared()
	waits.Read(waits.With(ctx, reader), one) // for no stream
	follow := w.Follow(reader)
	waits.Read(waits.With(ctx, reader), one)
	twice := waits.Reads{Requests: 4, Failed: 2, Bytes: 16, Took: 10, First: 8, Delayed: 6, Sought: 14, Found: 12}
	require.Equal(t, twice, w.Reads())
	follow()
	require.Equal(t, twice, w.Reads())
	end := waits.BeginRead(ctx)
	c.add(time.Second)
	end(5, context.Canceled)
	twice.Requests, twice.Failed, twice.Took = 5, 3, twice.Took+time.Second
	require.Equal(t, twice, w.Reads())
	waits.BeginRead(context.Background())(1, nil)
	waits.Read(context.Background(), one)
	require.Equal(t, waits.Reads{}, waits.Of(context.Background()).Reads())
}
