package batch

import (
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// alignment is what Arrow asks of every buffer, in bytes.
const alignment = 64

// buffer makes a buffer of n bytes that belongs to g. The bytes are whatever
// the memory held before: the caller writes every one of them.
func (g *gathering) buffer(n int) *memory.Buffer {
	if g.mem == nil {
		return memory.NewBufferBytes(unwritten(n))
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

// unwritten returns n bytes of the Go heap, aligned, that nobody has cleared.
// Clearing what is overwritten right after costs a fifth of a gather of long
// lists. Go has no function for it, but strings.Builder grows without
// clearing; should that change, this is slower and as right. Invariant builds
// spoil the memory, so a byte that is never written shows.
func unwritten(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	var b strings.Builder
	b.Grow(n + alignment)
	b.WriteByte(0) // so that the builder's string points to its memory
	start := unsafe.StringData(b.String())
	shift := -uintptr(unsafe.Pointer(start)) % alignment
	out := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(start), shift)), n)
	if invariant.On {
		spoil(out)
	}
	return out
}

// view reads a buffer's bytes as values of one width. Incomplete ones at the
// end are left out. T has no pointers.
func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// spans returns an empty list with room for n.
func (g *gathering) spans(n int) []span {
	if last := len(g.spare) - 1; last >= 0 && cap(g.spare[last]) >= n {
		s := g.spare[last]
		g.spare = g.spare[:last]
		return s[:0]
	}
	return make([]span, 0, n)
}

// recycle takes lists back that nothing refers to any more.
func (g *gathering) recycle(parts []part) {
	for _, p := range parts {
		g.spare = append(g.spare, p.spans)
	}
}

// bytesOf returns a buffer's bytes; none of no buffer.
func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
