package store

import (
	"context"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// mostCalls bounds the calls that run on one mount at one time, those left
// behind among them. Each takes a thread of the system while the kernel has
// it. It is as many as storage of ordinary latency gains from.
const mostCalls = 32

// Options are what Calls are made of.
type Options struct {
	// Timeout is how long a call may take; 0 is for as long as its caller waits.
	Timeout time.Duration
	// Clock says when the list of mounts has become old; nil reads it once.
	Clock func() time.Time
}

// Calls runs calls that the kernel may keep for longer than anybody waits, such
// as those on a disk or a mount that does not answer. Each runs on a goroutine
// of its own, and its caller waits until it returns, until the caller's context
// ends, or until the timeout. What then still runs is left behind: it keeps its
// place among the calls of its mount, and what it was given, until the kernel
// returns. No other mount waits for it.
//
// A file with a call that the timeout has left behind is not asked again before
// that returns: further calls for it fail as Unavailable at once, so that many
// streams need not find out one after the other.
//
// A mount has few places. When all are taken, further calls there wait for one
// to return; if none does for the timeout, they fail as Unavailable, and those
// after them at once, until one returns.
//
// A nil *Calls runs every call on its caller's goroutine. It is safe for
// concurrent use.
type Calls struct {
	timeout time.Duration
	table   *mountTable

	overdue atomic.Int64 // calls that the timeout has left behind

	mu     sync.Mutex
	mounts map[string]*mount
	files  map[string]int // locations with such calls, and how many
}

// NewCalls makes Calls, and reads the list of mounts.
func NewCalls(options Options) *Calls {
	return &Calls{timeout: options.Timeout, table: newMountTable(options.Clock), mounts: map[string]*mount{}, files: map[string]int{}}
}

// LeftBehind returns how many calls are left behind now, by mount.
func (c *Calls) LeftBehind() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for name, m := range c.mounts {
		if n := m.left.Load(); n > 0 {
			out[name] = int(n)
		}
	}
	return out
}

// of returns the mount that a location is on.
func (c *Calls) of(location string) *mount {
	name := Scheme(location)
	if path, err := Path(location); err == nil {
		name = c.table.of(path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.mounts[name]
	if m == nil {
		m = &mount{name: name, places: make(chan struct{}, mostCalls)}
		c.mounts[name] = m
	}
	return m
}

// hangs says whether a file has a call that the timeout has left behind.
func (c *Calls) hangs(location string) bool {
	if c.overdue.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[location] > 0
}

// late notes that the timeout has left a call for a file behind.
func (c *Calls) late(location string, call *pending) {
	count := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.overdue.Add(int64(n))
		if c.files[location] += n; c.files[location] == 0 {
			delete(c.files, location)
		}
	}
	count(1)
	call.whenDone(func() { count(-1) })
}

// mount is the calls of one mount.
type mount struct {
	name     string
	places   chan struct{} // one for each call that runs
	left     atomic.Int64  // of those, calls that nobody waits for
	returned atomic.Int64  // calls so far
	stuck    atomic.Bool   // all places were taken and none returned for a whole timeout
}

// enter takes a place. It waits for one, for as long as calls return.
func (m *mount) enter(ctx context.Context, timeout time.Duration, s subject) error {
	select {
	case m.places <- struct{}{}:
		return nil
	default:
	}
	if m.stuck.Load() {
		return m.unavailable(timeout, s)
	}
	timer := startTimer(timeout)
	defer timer.Stop()
	for {
		returned := m.returned.Load()
		select {
		case m.places <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if m.returned.Load() == returned {
				m.stuck.Store(true)
				return m.unavailable(timeout, s)
			}
			timer.Reset(timeout)
		}
	}
}

// leave gives a place back: a call has returned.
func (m *mount) leave() {
	m.returned.Add(1)
	m.stuck.Store(false)
	<-m.places
}

func (m *mount) unavailable(timeout time.Duration, s subject) error {
	return fault.New(fault.Unavailable, "storage at %s does not answer: %d calls have run for more than %s, so that %s is not tried",
		m.name, mostCalls, timeout, s).
		In("", s.location).WithRemedy("see why the disk or mount does not answer; files there are opened again as soon as it does")
}

// startTimer starts a timer, which does not expire where there is no timeout.
func startTimer(timeout time.Duration) *time.Timer {
	if timeout <= 0 {
		timeout = math.MaxInt64
	}
	return time.NewTimer(timeout)
}

// subject is what a call does to what, for errors.
type subject struct{ verb, location string }

func (s subject) String() string { return s.verb + " file " + s.location }

// outcome is what a call gave.
type outcome[T any] struct {
	value T
	err   error
}

// Call runs a call that uses the storage of a location, and waits for it as
// Calls do. The verb says in errors what it does: "open". The context that the
// call gets ends when nobody waits for it any more; then nobody gets its value,
// and one that is an io.Closer is closed.
func Call[T any](ctx context.Context, c *Calls, verb, location string, call func(context.Context) (T, error)) (T, error) {
	if c == nil {
		return call(ctx)
	}
	return await(ctx, c, c.of(location), subject{verb, location}, call)
}

// await is Call on a mount.
func await[T any](ctx context.Context, c *Calls, m *mount, s subject, call func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if ctx.Done() == nil && c.timeout <= 0 {
		return call(ctx)
	}
	if c.hangs(s.location) {
		return none, unanswered(s, "storage did not answer for file %s within %s, and is not asked again before it does", s.location, c.timeout)
	}
	if err := m.enter(ctx, c.timeout, s); err != nil {
		return none, err
	}
	given, cancel := context.WithCancelCause(ctx)
	state, returned := &pending{}, make(chan outcome[T], 1)
	go func() {
		out := guarded(given, s, call)
		if state.end() {
			m.left.Add(-1)
			if closer, ok := any(out.value).(io.Closer); ok && out.err == nil {
				_ = closer.Close() // nobody would hear of it
			}
		}
		m.leave()
		state.runAfter()
		returned <- out
	}()
	timer := startTimer(c.timeout)
	defer timer.Stop()
	var err error
	expired := false
	select {
	case out := <-returned:
		cancel(nil)
		return out.value, out.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		expired = true
		err = unanswered(s, "storage did not %s within %s", s, c.timeout)
	}
	cancel(err)
	m.left.Add(1)
	if !state.leave() {
		m.left.Add(-1)
		out := <-returned
		return out.value, out.err
	}
	if expired {
		c.late(s.location, state)
	}
	return none, &leftBehind{err: err, call: state}
}

// unanswered is the failure of a call that storage did not answer in time.
func unanswered(s subject, format string, args ...any) error {
	return fault.New(fault.Unavailable, format, args...).In("", s.location).
		WithRemedy("see whether the disk or mount answers; if it is only slow, raise storage_timeout")
}

// guarded makes an error of a panic: it would end the process from here.
func guarded[T any](ctx context.Context, s subject, call func(context.Context) (T, error)) (out outcome[T]) {
	defer func() {
		if value := recover(); value != nil {
			out.err = fault.Crashed(s.String(), value)
		}
	}()
	out.value, out.err = call(ctx)
	return out
}
