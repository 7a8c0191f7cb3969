package store

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/invariant"
)

// Bounded is a store over another one whose callers wait for as long as Calls
// let them: not beyond the end of their context, whatever storage does. Its
// objects are closed without waiting for storage.
type Bounded struct {
	under Store
	calls *Calls
}

var _ Store = (*Bounded)(nil)

// NewBounded puts a Bounded over another store.
func NewBounded(under Store, calls *Calls) *Bounded { return &Bounded{under: under, calls: calls} }

// Open opens a file. One that opens when nobody waits for it any more is closed.
func (b *Bounded) Open(ctx context.Context, location string, size int64) (Object, error) {
	m := b.calls.of(location)
	return await(ctx, b.calls, m, subject{"open", location}, func(ctx context.Context) (Object, error) {
		under, err := b.under.Open(ctx, location, size)
		if err != nil {
			return nil, err
		}
		return &boundedObject{Object: under, calls: b.calls, mount: m}, nil
	})
}

// boundedObject is an open file. The object under it is closed once it is to be
// closed and no read runs: those that were left behind do.
type boundedObject struct {
	Object
	calls *Calls
	mount *mount

	mu     sync.Mutex
	reads  int // that run
	closed bool
}

func (o *boundedObject) ReadAt(ctx context.Context, p []byte, off int64) error {
	o.begin()
	_, err := await(ctx, o.calls, o.mount, subject{"read", o.Location()}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.Object.ReadAt(ctx, p, off)
	})
	WhenReturned(err, o.end)
	return err
}

// Close closes the object under this one, on another goroutine: that may wait
// for storage too. What it would say comes too late to matter, as reads said
// whether they were right.
func (o *boundedObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.settle()
	return nil
}

func (o *boundedObject) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	invariant.Check(!o.closed, "%s is read after it was closed", o.Location())
	o.reads++
}

func (o *boundedObject) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads--
	o.settle()
}

// settle closes the object under this one if its time has come; o.mu is held.
func (o *boundedObject) settle() {
	if !o.closed || o.reads > 0 {
		return
	}
	go func() {
		o.mount.places <- struct{}{}
		defer o.mount.leave()
		_ = o.Object.Close()
	}()
}
