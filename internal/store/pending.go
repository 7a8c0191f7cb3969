package store

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Pending is an abandoned call: its caller stopped waiting for it, and it may still run. A nil
// *Pending is a call that has returned.
type Pending struct {
	mu       sync.Mutex
	returned bool
	left     bool     // whether the caller stopped waiting before the call returned
	after    []func() // functions to run after the call returns
	done     bool     // whether the functions in after were run or are running
}

// leave abandons the call unless it has returned. It reports whether it abandoned the call.
func (p *Pending) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = !p.returned
	return p.left
}

// end records that the call has returned, and reports whether it was abandoned.
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

// WhenReturned runs f once the call has returned and no longer uses the memory and other resources
// of its caller. If the call has already returned, f runs at once, in this goroutine; otherwise it
// runs later, in another goroutine.
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

// keepWhile keeps a reference to the buffer of an abandoned call until the call returns.
func keepWhile(left *Pending, p *memory.Buffer) {
	if left != nil {
		p.Retain()
		left.WhenReturned(p.Release)
	}
}
