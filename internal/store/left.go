package store

import (
	"sync"
	"sync/atomic"
)

// pending is a running call. Either it returns first, and its caller waited for it,
// or its caller leaves first, and it is left behind.
type pending struct {
	mu       sync.Mutex
	returned bool
	left     bool
	after    []func() // to run after it returns
	done     bool     // after was taken
}

// leave leaves the call behind unless it has returned. It reports whether it did.
func (p *pending) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = !p.returned
	return p.left
}

// end records that the call has returned. It reports whether it was left behind.
func (p *pending) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned = true
	return p.left
}

// runAfter runs the functions that whenDone registered.
func (p *pending) runAfter() {
	p.mu.Lock()
	after := p.after
	p.after, p.done = nil, true
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// whenDone runs f after the call returns, or now if it has.
func (p *pending) whenDone(f func()) {
	p.mu.Lock()
	if !p.done {
		p.after = append(p.after, f)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	f()
}

// leftBehind is the error of a caller that stopped waiting for a call, which may still run.
type leftBehind struct {
	err  error
	call *pending
}

func (e *leftBehind) Error() string { return e.err.Error() }
func (e *leftBehind) Unwrap() error { return e.err }

// WhenReturned runs f when all calls that failed with err have returned and no longer
// use their arguments. If none of them was left behind, or err is nil, it runs f now,
// in this goroutine; otherwise f runs in another goroutine. Callers release memory that
// they passed to a call through this function.
func WhenReturned(err error, f func()) {
	calls := pendingOf(err, nil)
	if len(calls) == 0 {
		f()
		return
	}
	var left atomic.Int64
	left.Store(int64(len(calls)))
	for _, call := range calls {
		call.whenDone(func() {
			if left.Add(-1) == 0 {
				f()
			}
		})
	}
}

// pendingOf appends the calls left behind that are recorded in an error or in an error
// that it wraps.
func pendingOf(err error, calls []*pending) []*pending {
	if e, ok := err.(*leftBehind); ok { //nolint:errorlint // the whole tree is searched
		calls = append(calls, e.call)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return pendingOf(e.Unwrap(), calls)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			calls = pendingOf(inner, calls)
		}
	}
	return calls
}
