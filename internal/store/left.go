package store

import "sync/atomic"

// leftBehind is the error of a caller that stopped waiting for a call, which may still run.
type leftBehind struct {
	err  error
	call *Pending
}

// withPending adds the call to an error.
func withPending(err error, call *Pending) error {
	if call == nil {
		return err
	}
	return &leftBehind{err: err, call: call}
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
		call.WhenReturned(func() {
			if left.Add(-1) == 0 {
				f()
			}
		})
	}
}

// pendingOf appends the calls left behind that are recorded in an error or in an error
// that it wraps.
func pendingOf(err error, calls []*Pending) []*Pending {
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
