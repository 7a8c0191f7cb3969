package batch

import (
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// alignment is Arrow's recommended alignment of buffers, in bytes.
const alignment = 64

// buffer makes a buffer of n bytes that belongs to g. Its contents are undefined, so the caller
// must write every byte.
func (g *gathering) buffer(n int) *memory.Buffer {
	if g.mem == nil {
		return memory.NewBufferBytes(uninitialized(n))
	}
	b := memory.NewResizableBuffer(g.mem)
	b.Resize(n)
	g.owned = append(g.owned, b)
	return b
}

// zeroed makes a buffer of n zero bytes that belongs to g.
func (g *gathering) zeroed(n int) *memory.Buffer {
	b := g.buffer(n)
	clear(b.Bytes())
	return b
}

// uninitialized returns n aligned bytes of the Go heap without clearing them.
// Clearing memory that is about to be overwritten takes a fifth of the time of
// gathering long lists. Invariant builds poison the memory, which exposes bytes that are
// never written.
func uninitialized(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	out := aligned(n, n)
	if invariant.On {
		fillPoison(out)
	}
	return out
}

// aligned allocates room bytes of the Go heap and returns the first size of them. The bytes are
// aligned and not cleared. For many sizes the heap returns aligned memory anyway.
func aligned(size, room int) []byte {
	b := uncleared(room)
	if !isAligned(b) {
		b = uncleared(room + alignment)
		b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment:]
	}
	return b[:size:room]
}

// uncleared allocates n bytes without clearing them; n is at least 1. Go has no function for this,
// but strings.Builder grows without clearing. If that changes, uncleared becomes slower, but stays
// correct.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // the string of an empty builder does not point to its memory
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment == 0 }

// view returns a buffer's bytes as values of type T, without an incomplete value at the end. T must
// not contain pointers.
func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// spans returns an empty list with capacity n.
func (g *gathering) spans(n int) []span {
	if last := len(g.freeSpans) - 1; last >= 0 && cap(g.freeSpans[last]) >= n {
		s := g.freeSpans[last]
		g.freeSpans = g.freeSpans[:last]
		return s[:0]
	}
	return make([]span, 0, n)
}

// recycle makes the inputs' spans available to later calls of spans, unless copies that were
// deferred need them.
func (g *gathering) recycle(inputs []input) {
	if g.defers {
		return
	}
	for _, p := range inputs {
		g.freeSpans = append(g.freeSpans, p.spans)
	}
}

// bytesOf returns a buffer's bytes, or nil for no buffer.
func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
