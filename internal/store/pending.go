package store

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Pending is a call that its caller stopped waiting for: it was left behind, and may still run.
// A nil *Pending is a call that has returned.
type Pending struct {
	mu       sync.Mutex
	returned bool
	left     bool     // its caller left before it returned
	after    []func() // to run after it returns
	done     bool     // after was taken
}

// leave leaves the call behind unless it has returned. It reports whether it did.
func (p *Pending) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = !p.returned
	return p.left
}

// end records that the call has returned. It reports whether it was left behind.
func (p *Pending) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned = true
	return p.left
}

// runAfter runs the functions that WhenReturned registered.
func (p *Pending) runAfter() {
	p.mu.Lock()
	after := p.after
	p.after, p.done = nil, true
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// WhenReturned runs f when the call has returned and no longer uses what its caller gave it: now,
// in this goroutine, if it has; otherwise later, in another one.
func (p *Pending) WhenReturned(f func()) {
	if p == nil {
		f()
		return
	}
	p.mu.Lock()
	if !p.done {
		p.after = append(p.after, f)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	f()
}

// keepWhile keeps a reference to the buffer of a call that was left behind until it returns.
func keepWhile(left *Pending, p *memory.Buffer) {
	if left != nil {
		p.Retain()
		left.WhenReturned(p.Release)
	}
}
