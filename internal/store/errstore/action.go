package errstore

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
)

type kind int

const (
	none kind = iota
	fail
	hold
	hang
	flip
	truncate
)

// Action is what happens to a call. The zero value lets it pass.
type Action struct {
	kind   kind
	err    error
	asked  chan<- struct{}
	gate   <-chan struct{}
	offset int64
	mask   byte
}

// Fail answers the call with an error; nil stands for storage that does not
// answer (Unavailable, the file named).
func Fail(err error) Action { return Action{kind: fail, err: err} }

// Hold keeps the call waiting until the gate is closed or its context ends.
func Hold(gate <-chan struct{}) Action { return Action{kind: hold, gate: gate} }

// Hang keeps the call until the gate is closed, whatever its context says, as the
// kernel does for a disk that does not answer. Then the call passes: a read
// writes, whether anybody waits for it or not. Asked, where given, is sent to
// when the call begins.
func Hang(asked chan<- struct{}, gate <-chan struct{}) Action {
	return Action{kind: hang, asked: asked, gate: gate}
}

// Flip lets a read pass, with the bits of the mask turned over in the file's
// byte at the offset, where the read contains it.
func Flip(offset int64, mask byte) Action { return Action{kind: flip, offset: offset, mask: mask} }

// Truncate makes the file end at the offset. On Open the whole object is that
// short, and the size that the caller gave is not compared; on Read only that
// read finds the end.
func Truncate(offset int64) Action { return Action{kind: truncate, offset: offset} }

// before does what comes before the call itself.
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
	case none, flip, truncate:
	}
	return nil
}

// under returns the context for the store below: a call that hung is not
// cancelled.
func (a Action) under(ctx context.Context) context.Context {
	if a.kind == hang {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
