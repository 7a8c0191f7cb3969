package store

import (
	"context"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
)

// Bounded decorates a store with Calls, so that no call lasts longer than its context, even if
// storage hangs. It closes objects without waiting for storage.
type Bounded struct {
	under Operations
	calls *Calls
}

var _ Store = (*Bounded)(nil)

// NewBounded returns a Bounded over another store.
func NewBounded(under Store, calls *Calls) *Bounded {
	return &Bounded{under: OperationsOf(under), calls: calls}
}

// Open opens a file. If the caller has stopped waiting when the file opens, the file is closed.
func (b *Bounded) Open(ctx context.Context, location string, size int64) (Object, error) {
	m := b.calls.of(location)
	part := trace.Of(ctx).Begin(trace.Request)
	out, _, err := await(ctx, b.calls, m, subject{verb: "open", location: location}, func(ctx context.Context) (Object, error) {
		under, err := b.under.Open(ctx, location, size)
		if err != nil {
			return nil, err
		}
		return &boundedObject{Object: under, calls: b.calls, opened: newOpenHandle(m, under)}, nil
	})
	endRequest(part, err, "open", location, 0)
	return out, err
}

// endRequest ends the span of a call.
func endRequest(part *trace.Part, err error, operation, location string, bytes int) {
	if part != nil {
		part.End(err, trace.Attribute{Key: trace.Store, Text: "files"}, trace.Attribute{Key: trace.Operation, Text: operation}, trace.FileOf(location),
			trace.Attribute{Key: trace.Bytes, Number: int64(bytes)})
	}
}

// boundedObject is an open file. The underlying object is closed once Close was called and all
// reads have returned, including abandoned ones.
type boundedObject struct {
	Object
	calls  *Calls
	opened *openHandle
}

func (o *boundedObject) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	o.opened.begin(o.Location())
	part, read := trace.Of(ctx).Begin(trace.Request), waits.BeginRead(ctx)
	_, pending, err := await(ctx, o.calls, o.opened.mount, subject{verb: "read", location: o.Location()}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.Object.ReadAt(ctx, p, off)
	})
	endRequest(part, err, "read", o.Location(), p.Len())
	read(p.Len(), err)
	o.opened.endAfter(pending)
	keepWhile(pending, p)
	return err
}

// Close closes the underlying object in another goroutine, because closing may also wait for
// storage. Its error does not matter, since each read has reported its error.
func (o *boundedObject) Close() error {
	o.opened.close()
	return nil
}

// openHandle holds the result of Open or List. It closes the result in a separate goroutine once
// close was called and no call is running.
type openHandle struct {
	mount *mount
	under io.Closer

	mu     sync.Mutex
	calls  int // running calls, including abandoned ones
	closed bool
}

func newOpenHandle(m *mount, under io.Closer) *openHandle { return &openHandle{mount: m, under: under} }

func (o *openHandle) begin(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	invariant.Check(!o.closed, "%s is used after it was closed", name)
	o.calls++
}

func (o *openHandle) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls--
	o.closeIfIdle()
}

// endAfter ends a call once it has returned.
func (o *openHandle) endAfter(call *Pending) {
	if call == nil {
		o.end()
		return
	}
	call.WhenReturned(o.end)
}

func (o *openHandle) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.closeIfIdle()
}

// closeIfIdle closes the opened value if close was called and no call runs. o.mu is held.
func (o *openHandle) closeIfIdle() {
	if !o.closed || o.calls > 0 {
		return
	}
	go func() {
		o.mount.slots <- struct{}{}
		defer o.mount.leave()
		_ = o.under.Close()
	}()
}
