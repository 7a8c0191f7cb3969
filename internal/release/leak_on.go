//go:build invariants

package release

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/penstock/penstock/internal/invariant"
)

// leak knows whether a Handle was released, and outlives it.
type leak struct {
	done  atomic.Bool
	stack []byte // of New
}

// watch checks that a Handle is released before the collector finds it unreachable.
func watch(h *Handle) *leak {
	l := &leak{stack: debug.Stack()}
	runtime.AddCleanup(h, (*leak).check, l)
	return l
}

func (l *leak) released() { l.done.Store(true) }

// check fails if the Handle was not released.
func (l *leak) check() {
	invariant.Check(l.done.Load(), "a release.Handle was dropped and never released; it was made here:\n%s", l.stack)
}
