package store

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/invariant"
)

// Bounded decorates a store with Calls: no call lasts longer than its context,
// whatever the storage does. Objects are closed without waiting for storage.
type Bounded struct {
	under Store
	calls *Calls
}

var _ Store = (*Bounded)(nil)

// NewBounded returns a Bounded over another store.
func NewBounded(under Store, calls *Calls) *Bounded { return &Bounded{under: under, calls: calls} }

// Open opens a file. A file that opens after its caller left is closed.
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

// boundedObject is an open file. The object under it is closed after Close was called
// and no read runs; reads that were left behind still run.
type boundedObject struct {
	Object
	calls *Calls
	mount *mount

	mu     sync.Mutex
	reads  int // running
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

// Close closes the object under this one, in another goroutine because that may wait
// for storage too. An error of it does not matter: each read has reported its own.
func (o *boundedObject) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.closeIfIdle()
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
	o.closeIfIdle()
}

// closeIfIdle closes the object under this one if Close was called and no read runs;
// o.mu is held.
func (o *boundedObject) closeIfIdle() {
	if !o.closed || o.reads > 0 {
		return
	}
	go func() {
		o.mount.slots <- struct{}{}
		defer o.mount.leave()
		_ = o.Object.Close()
	}()
}
