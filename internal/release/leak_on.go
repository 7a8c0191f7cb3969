//go:build invariants

package release

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/penstock/penstock/internal/invariant"
)

// leak knows whether a Handle was released, and outlives it.
type leak struct {
	done    atomic.Bool
	callers [32]uintptr // of New; text is made of them only for a panic
	depth   int
}

// watch checks that a Handle is released before the collector finds it unreachable.
func watch(h *Handle) *leak {
	l := &leak{}
	l.depth = runtime.Callers(3, l.callers[:])
	runtime.AddCleanup(h, (*leak).check, l)
	return l
}

func (l *leak) released() { l.done.Store(true) }

// check fails if the Handle was not released.
func (l *leak) check() {
	if !l.done.Load() {
		invariant.Check(false, "a release.Handle was dropped and never released; it was made here:\n%s", l.stack())
	}
}

// stack returns the calls that led to New, the innermost first.
func (l *leak) stack() string {
	var text strings.Builder
	frames := runtime.CallersFrames(l.callers[:l.depth])
	for {
		f, more := frames.Next()
		fmt.Fprintf(&text, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return text.String()
		}
	}
}
