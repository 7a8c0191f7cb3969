package store

import (
	"sync"
	"sync/atomic"
)

// pending is a call that runs. Either its goroutine ends it first, and it was
// waited for, or its caller leaves first, and it is left behind.
type pending struct {
	mu       sync.Mutex
	returned bool
	left     bool
	after    []func() // to run when it has returned
	done     bool     // those have been taken
}

// leave says that nobody waits any more, unless the call has returned.
func (p *pending) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = !p.returned
	return p.left
}

// end says that the call has returned, and returns whether it was left behind.
func (p *pending) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned = true
	return p.left
}

// runAfter runs what was to follow the call.
func (p *pending) runAfter() {
	p.mu.Lock()
	after := p.after
	p.after, p.done = nil, true
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// whenDone runs f after the call: at once if that is over.
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

// leftBehind is why a caller stopped waiting for a call that may still run.
type leftBehind struct {
	err  error
	call *pending
}

func (e *leftBehind) Error() string { return e.err.Error() }
func (e *leftBehind) Unwrap() error { return e.err }

// WhenReturned runs f once no call that err tells of uses anything any more
// that it was given: at once, on this goroutine, where none was left behind,
// as for nil; else on another one, when the last of them returns. Whoever gives
// memory to a call gives it back through this.
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

// pendingOf appends the calls that an error, or one inside it, tells of.
func pendingOf(err error, calls []*pending) []*pending {
	if e, ok := err.(*leftBehind); ok { //nolint:errorlint // every error of the tree is looked at
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
