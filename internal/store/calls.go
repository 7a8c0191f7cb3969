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

// maxCalls bounds the calls that run on one mount at a time, including abandoned ones. Each call
// occupies a thread while it is in the kernel. More calls would not speed up storage of ordinary
// latency.
const maxCalls = 32

// Options configure Calls.
type Options struct {
	// Timeout is how long a call may take; 0 means as long as its caller waits.
	Timeout time.Duration
	// Clock determines when the list of mounts is read again; nil reads it only once.
	Clock func() time.Time
}

// Calls runs calls that may block in the kernel for longer than their callers wait, such as calls
// to a disk or a mount that does not answer. Each call runs in a separate goroutine. The caller
// waits until the call returns, the caller's context ends, or the timeout expires. A call that
// still runs then is abandoned: until the kernel returns, it keeps its slot among
// the calls of its mount and the memory that it was given. Calls on other mounts do not wait for
// it.
//
// After a call has timed out, further calls for its file fail with Unavailable at once, until that
// call returns. So streams do not all wait for the timeout one after the other.
//
// A mount has a limited number of slots. When all are taken, further calls wait for a call to
// return. If none returns within the timeout, they fail with Unavailable, and later calls fail at
// once until a call returns.
//
// A nil *Calls runs every call in its caller's goroutine. It is safe for
// concurrent use.
type Calls struct {
	timeout time.Duration
	table   *mountTable

	overdue atomic.Int64 // number of running calls that were abandoned at the timeout

	mu     sync.Mutex
	mounts map[string]*mount
	files  map[string]int // by location: the number of running calls that were abandoned at the timeout
}

// NewCalls returns Calls. It reads the list of mounts.
func NewCalls(options Options) *Calls {
	return &Calls{timeout: options.Timeout, table: newMountTable(options.Clock), mounts: map[string]*mount{}, files: map[string]int{}}
}

// Abandoned returns the number of abandoned calls of each mount.
func (c *Calls) Abandoned() map[string]int {
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

// of returns the mount on which a location is.
func (c *Calls) of(location string) *mount {
	name := Scheme(location)
	if path, err := Path(location); err == nil {
		name = c.table.of(path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.mounts[name]
	if m == nil {
		m = &mount{name: name, slots: make(chan struct{}, maxCalls)}
		c.mounts[name] = m
	}
	return m
}

// hangs reports whether a call for a file has timed out and still runs.
func (c *Calls) hangs(location string) bool {
	if c.overdue.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[location] > 0
}

// timedOut records that a call for a file has timed out.
func (c *Calls) timedOut(location string, call *Pending) {
	count := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.overdue.Add(int64(n))
		if c.files[location] += n; c.files[location] == 0 {
			delete(c.files, location)
		}
	}
	count(1)
	call.WhenReturned(func() { count(-1) })
}

// mount limits the calls of one mount.
type mount struct {
	name     string
	slots    chan struct{} // contains one element for each running call
	left     atomic.Int64  // number of running calls that are abandoned
	returned atomic.Int64  // number of calls that have returned so far
	stuck    atomic.Bool   // whether all slots were taken and no call returned for a whole timeout
}

// enter takes a slot. If all slots are taken, it waits, as long as some call returns within each
// timeout.
func (m *mount) enter(ctx context.Context, timeout time.Duration, s subject) error {
	select {
	case m.slots <- struct{}{}:
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
		case m.slots <- struct{}{}:
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

// leave frees a slot after a call has returned.
func (m *mount) leave() {
	m.returned.Add(1)
	m.stuck.Store(false)
	<-m.slots
}

func (m *mount) unavailable(timeout time.Duration, s subject) error {
	return fault.New(fault.Unavailable, "storage at %s does not answer: %d calls have run for more than %s, so %s is not tried",
		m.name, maxCalls, timeout, s).
		In("", s.location).WithRemedy("check why the disk or mount does not respond; files there are opened again as soon as it does")
}

// startTimer starts a timer. Without a timeout it does not expire.
func startTimer(timeout time.Duration) *time.Timer {
	if timeout <= 0 {
		timeout = math.MaxInt64
	}
	return time.NewTimer(timeout)
}

// subject names a call in errors.
type subject struct {
	verb, location string
	folder         bool // the location is that of a folder
}

func (s subject) String() string {
	if s.folder {
		return s.verb + " folder " + s.location
	}
	return s.verb + " file " + s.location
}

// outcome is the result of a call.
type outcome[T any] struct {
	value T
	err   error
}

// Call runs a call that uses the storage of a location, and waits for it as described at Calls.
// Errors contain verb, such as "open". When the caller stops waiting, the context of the call is
// canceled; the call's result is then dropped, and closed if it is an io.Closer.
func Call[T any](ctx context.Context, c *Calls, verb, location string, call func(context.Context) (T, error)) (T, error) {
	out, _, err := CallPending(ctx, c, verb, location, call)
	return out, err
}

// CallPending is like Call, for a call that uses memory or other resources of its caller. If the
// call was abandoned, it also returns a Pending, which reports when the call has returned.
func CallPending[T any](ctx context.Context, c *Calls, verb, location string, call func(context.Context) (T, error)) (T, *Pending, error) {
	if c == nil {
		out, err := call(ctx)
		return out, nil, err
	}
	return await(ctx, c, c.of(location), subject{verb: verb, location: location}, call)
}

// await is like CallPending, given the mount.
func await[T any](ctx context.Context, c *Calls, m *mount, s subject, call func(context.Context) (T, error)) (T, *Pending, error) {
	var none T
	if ctx.Err() != nil {
		return none, nil, context.Cause(ctx)
	}
	if ctx.Done() == nil && c.timeout <= 0 {
		out, err := call(ctx)
		return out, nil, err
	}
	if c.hangs(s.location) {
		return none, nil, unanswered(s, "storage did not answer for file %s within %s; further calls fail until it does", s.location, c.timeout)
	}
	if err := m.enter(ctx, c.timeout, s); err != nil {
		return none, nil, err
	}
	given, cancel := context.WithCancelCause(ctx)
	state, returned := &Pending{}, make(chan outcome[T], 1)
	go func() {
		out := guarded(given, s, call)
		if state.end() {
			m.left.Add(-1)
			if closer, ok := any(out.value).(io.Closer); ok && out.err == nil {
				_ = closer.Close() // the caller has stopped waiting
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
		return out.value, nil, out.err
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
		return out.value, nil, out.err
	}
	if expired {
		c.timedOut(s.location, state)
	}
	return none, state, err
}

// unanswered returns the error for a call that storage did not answer in time.
func unanswered(s subject, format string, args ...any) error {
	return fault.New(fault.Unavailable, format, args...).In("", s.location).
		WithRemedy("check whether the disk or mount responds; if it is only slow, raise storage_timeout")
}

// guarded converts a panic to an error, since a panic in this goroutine would end the process.
func guarded[T any](ctx context.Context, s subject, call func(context.Context) (T, error)) (out outcome[T]) {
	defer func() {
		if value := recover(); value != nil {
			out.err = fault.Crashed(s.String(), value)
		}
	}()
	out.value, out.err = call(ctx)
	return out
}
