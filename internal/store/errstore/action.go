package errstore

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

type kind int

const (
	none kind = iota
	fail
	hold
	hang
	flip
	truncate
	lose
)

// Action changes a call. The zero value does nothing.
type Action struct {
	kind   kind
	err    error
	asked  chan<- struct{}
	gate   <-chan struct{}
	offset int64
	mask   byte
}

// Fail makes the call fail with an error. If err is nil, the error is the one for storage that does
// not answer: Unavailable, with the file's name.
func Fail(err error) Action { return Action{kind: fail, err: err} }

// Lose lets the call run, and then makes it fail with an error, as if its answer were lost. If err
// is nil, the error is one whose outcome is unknown (see store.UnknownOutcome). Lose applies to
// calls that change storage, and to calls that request a page of a listing.
func Lose(err error) Action { return Action{kind: lose, err: err} }

// Hold blocks the call until the gate is closed or its context ends.
func Hold(gate <-chan struct{}) Action { return Action{kind: hold, gate: gate} }

// Hang blocks the call until the gate is closed, even if the call's context ends, as the kernel
// does for a disk that does not answer. After that the call continues: a read writes to its buffer,
// although its caller may have left. When the call begins, it sends to asked, unless asked is nil.
func Hang(asked chan<- struct{}, gate <-chan struct{}) Action {
	return Action{kind: hang, asked: asked, gate: gate}
}

// Flip flips the bits of the mask in the file's byte at the offset. It affects reads that contain
// this byte.
func Flip(offset int64, mask byte) Action { return Action{kind: flip, offset: offset, mask: mask} }

// Truncate makes the file end at the offset. As the action of a call of Open, it affects all reads
// of the object, and the size that the caller gave is not checked; as the action of a read, it
// affects only that read.
func Truncate(offset int64) Action { return Action{kind: truncate, offset: offset} }

// before performs the part of the action that precedes the call.
func (a Action) before(ctx context.Context, location string) error {
	switch a.kind {
	case fail:
		if a.err != nil {
			return a.err
		}
		return fault.New(fault.Unavailable, "storage of file %s does not answer", location).In("", location).
			WithRemedy("try again later")
	case hold:
		select {
		case <-a.gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case hang:
		if a.asked != nil {
			a.asked <- struct{}{}
		}
		<-a.gate
	case none, flip, truncate, lose:
	}
	return nil
}

// after performs the part of the action that follows a call that succeeded.
func (a Action) after(location string) error {
	switch {
	case a.kind != lose:
		return nil
	case a.err != nil:
		return a.err
	}
	return store.WithUnknownOutcome(fault.New(fault.Unavailable, "storage of file %s did not answer", location).In("", location).
		WithRemedy("check whether the file is there"))
}

// under returns the context for the decorated store. A call that hangs is not canceled.
func (a Action) under(ctx context.Context) context.Context {
	if a.kind == hang {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
