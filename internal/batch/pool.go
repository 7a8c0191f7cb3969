package batch

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// The classes of the pool are four to each power of two between these, in
// bits: 256, 320, 384, 448, 512, 640 … so that at most a fifth of what is
// handed out lies idle.
const (
	smallestClass = 8  // 256 bytes
	largestClass  = 26 // 64 MiB
	classCount    = 4*(largestClass-smallestClass) + 1
)

// NewAllocator returns the allocator for decoding and staging: a new Pool, and
// in invariant builds a Poison over it.
func NewAllocator() memory.Allocator {
	if invariant.On {
		return NewPoison(&Pool{})
	}
	return &Pool{}
}

// Pool is an allocator that hands freed memory out again, by classes of
// size up to 64 MiB; larger requests go to the Go heap and back.
// Memory is aligned to 64 bytes and not cleared: this package and arrow-go's
// builders of plain columns write all that they use, but its Parquet reader
// does not, so whoever decodes clears first. What is freed and not wanted again is the Go
// collector's after two of its cycles. The zero value is ready; it is safe for
// concurrent use.
type Pool struct {
	classes [classCount]sync.Pool // of *byte, the start of a class's memory
}

// class returns the smallest class that holds size bytes and the bytes it has,
// and whether there is one.
func class(size int) (n, room int, ok bool) {
	if size <= 1<<smallestClass {
		return 0, 1 << smallestClass, true
	}
	power := bits.Len(uint(size-1)) - 1 // 1<<power < size <= 1<<(power+1)
	quarter := 1 << (power - 2)
	n = (size - 1 - 1<<power) / quarter // full quarters above the power
	at := 4*(power-smallestClass) + n + 1
	return at, 1<<power + (n+1)*quarter, at < classCount
}

// Allocate returns size bytes, of any content.
func (p *Pool) Allocate(size int) []byte {
	if size <= 0 {
		return nil
	}
	n, room, pooled := class(size)
	if !pooled {
		return aligned(size, size)
	}
	if start, ok := p.classes[n].Get().(*byte); ok {
		return unsafe.Slice(start, room)[:size]
	}
	return aligned(size, room)
}

// aligned makes new memory. The Go heap aligns powers of two by itself, so
// the longer way round is for sizes beyond the classes.
func aligned(size, room int) []byte {
	b := make([]byte, room)
	if isAligned(b) {
		return b[:size]
	}
	b = make([]byte, room+alignment)
	shift := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % alignment)
	return b[shift : shift+size : shift+room]
}

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment == 0 }

// Reallocate returns size bytes that begin with those of b, which must not be
// used any more. Memory stays where it is unless it is too small, or more
// than four times too large.
func (p *Pool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) && size > cap(b)/4 {
		return b[:size]
	}
	out := p.Allocate(size)
	copy(out, b)
	p.Free(b)
	return out
}

// Free takes memory back. A slice that is not one of the pool's, by its
// capacity or alignment, is left to the collector.
func (p *Pool) Free(b []byte) {
	if cap(b) == 0 || !isAligned(b) {
		return
	}
	if n, room, pooled := class(cap(b)); pooled && room == cap(b) {
		p.classes[n].Put(unsafe.SliceData(b))
	}
}
