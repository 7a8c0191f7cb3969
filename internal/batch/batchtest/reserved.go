package batchtest

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
)

// Reserved is an allocator that compares what is allocated with what a budget has reserved. It is safe for concurrent use.
type Reserved struct {
	memory.Allocator
	Of *budget.Budget

	mu                    sync.Mutex
	used, excess, maximum int64
}

// Used returns the bytes that are allocated now.
func (r *Reserved) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Excess returns the most bytes that were allocated beyond those that were reserved at the same time, and the most that were allocated.
func (r *Reserved) Excess() (excess, maximum int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excess, r.maximum
}

func (r *Reserved) change(by int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used += by
	r.maximum = max(r.maximum, r.used)
	if by > 0 {
		r.excess = max(r.excess, r.used-r.Of.Used())
	}
}

// Allocate implements memory.Allocator.
func (r *Reserved) Allocate(size int) []byte {
	r.change(int64(size))
	return r.Allocator.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (r *Reserved) Reallocate(size int, b []byte) []byte {
	r.change(int64(size - len(b)))
	return r.Allocator.Reallocate(size, b)
}

// Free implements memory.Allocator.
func (r *Reserved) Free(b []byte) {
	r.change(-int64(len(b)))
	r.Allocator.Free(b)
}
