// Package release has the one type by which callers return resources that they acquired from
// another package: memory, a place in a queue, a reference, a hold on a snapshot. A function that
// acquires something returns a *Handle; its caller calls Release when it is done.
//
// Release is idempotent, so that error paths and deferred calls may both call it,
// and may be called from any goroutine. In builds with invariants, a Handle that
// becomes unreachable before it was released panics with the stack of its New.
package release

import (
	"slices"
	"sync/atomic"
)

// Handle releases one acquired thing. A nil Handle holds nothing: its Release does
// nothing.
type Handle struct {
	pending atomic.Pointer[func()]
	leak    *leak // builds with invariants alone
}

// New returns a Handle whose first Release calls release.
func New(release func()) *Handle {
	h := &Handle{}
	h.pending.Store(&release)
	h.leak = watch(h)
	return h
}

// All returns one Handle for several, which it releases in reverse order. It skips
// those that are nil.
func All(handles ...*Handle) *Handle {
	handles = slices.DeleteFunc(slices.Clone(handles), func(h *Handle) bool { return h == nil })
	switch len(handles) {
	case 0:
		return nil
	case 1:
		return handles[0]
	}
	return New(func() {
		for _, h := range slices.Backward(handles) {
			h.Release()
		}
	})
}

// Release releases the thing. Only the first call does; a call that comes while that
// one runs returns at once.
func (h *Handle) Release() {
	if h == nil {
		return
	}
	if release := h.pending.Swap(nil); release != nil {
		h.leak.released()
		(*release)()
	}
}
