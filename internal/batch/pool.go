package batch

import (
	"cmp"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// The classes of the pool are eight to each power of two between these, in bits:
// 256, 288, 320 … 512, 576 … so that at most a ninth of new memory lies idle, and
// a fifth of what is handed out again: that is of the class or of the next one.
const (
	smallestClass = 8  // 256 bytes
	largestClass  = 26 // 64 MiB
	inPower       = 8
	classCount    = inPower*(largestClass-smallestClass) + 1
)

// Trimming is an allocator that can give up the freed memory that it keeps.
type Trimming interface {
	memory.Allocator
	// Trim leaves to the collector what lay free ever since the Trim before,
	// and says whether any memory was allocated or freed since then.
	Trim() (used bool)
}

// MostKept bounds the freed memory that a Pool keeps, in bytes.
const MostKept = 96 << 20

// NewAllocator returns the allocator for decoding and staging: a new Pool, and
// in invariant builds a Poison over it.
func NewAllocator() Trimming { return NewBoundedAllocator(MostKept) }

// NewBoundedAllocator is NewAllocator that keeps so many freed bytes at most.
func NewBoundedAllocator(keep int64) Trimming {
	pool := &Pool{most: min(keep, MostKept)}
	if invariant.On {
		return NewPoison(pool)
	}
	return pool
}

// Pool is an allocator that hands freed memory out again, by classes of size
// up to 64 MiB; larger requests go to the Go heap and back. Memory is aligned
// to 64 bytes and not cleared: this package and arrow-go's builders of plain
// columns write all that they use, but its Parquet reader does not, so whoever
// decodes clears first. At most MostKept bytes of freed memory are kept, those
// freed last; the rest is the Go collector's. A sync.Pool would keep what two
// collections leave, which is most of the heap when they are rare. What is not
// used for a while Trim gives up. The zero value is ready; it is safe for
// concurrent use.
type Pool struct {
	most int64 // free bytes kept; 0: MostKept

	mu      sync.Mutex
	classes [classCount][]*byte // the starts of free memory, the last one freed last
	idle    [classCount]int     // how many of them, the first ones, were there all the time since the last Trim
	free    int64               // bytes in classes
	evict   int                 // the class that gives way next
	used    bool                // since the last Trim
}

// class returns the smallest class that holds size bytes and the bytes it has,
// and whether there is one.
func class(size int) (n, room int, ok bool) {
	if size <= 1<<smallestClass {
		return 0, 1 << smallestClass, true
	}
	power := bits.Len(uint(size-1)) - 1 // 1<<power < size <= 1<<(power+1)
	step := 1 << power / inPower
	n = (size - 1 - 1<<power) / step // full steps above the power
	at := inPower*(power-smallestClass) + n + 1
	return at, 1<<power + (n+1)*step, at < classCount
}

// classRoom returns the bytes of a class's memory.
func classRoom(n int) int {
	power := smallestClass + n/inPower
	return 1<<power + n%inPower*(1<<power/inPower)
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
	if free := p.pop(n); free != nil {
		return free[:size]
	}
	return aligned(size, room)
}

// pop returns free memory of a class or the next one, or nil.
func (p *Pool) pop(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = true
	if len(p.classes[n]) == 0 && n < classCount-1 {
		n++
	}
	last := len(p.classes[n]) - 1
	if last < 0 {
		return nil
	}
	start, room := p.classes[n][last], classRoom(n)
	p.classes[n][last] = nil
	p.classes[n] = p.classes[n][:last]
	p.idle[n] = min(p.idle[n], last)
	p.free -= int64(room)
	return unsafe.Slice(start, room)
}

// keep adds free memory to a class, and lets go of others' where that is too
// much: one class after the other, so that no forgotten one fills the pool.
func (p *Pool) keep(n, room int, start *byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = true
	p.classes[n] = append(p.classes[n], start)
	p.free += int64(room)
	for p.free > cmp.Or(p.most, MostKept) {
		p.drop(p.evict, min(1, len(p.classes[p.evict])))
		p.evict = (p.evict + 1) % classCount
	}
}

// drop lets go of the first count of a class. p.mu is held.
func (p *Pool) drop(n, count int) {
	clear(p.classes[n][:count])
	p.classes[n] = p.classes[n][count:]
	p.idle[n] = max(p.idle[n]-count, 0)
	p.free -= int64(count) * int64(classRoom(n))
}

// Trim implements Trimming. Memory is taken where it was freed last, so that
// the first ones of a class lie idle when fewer would do.
func (p *Pool) Trim() (used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.classes {
		p.drop(n, p.idle[n])
		p.idle[n] = len(p.classes[n])
		if p.idle[n] == 0 {
			p.classes[n] = nil // the list too
		}
	}
	used, p.used = p.used, false
	return used
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
		p.keep(n, room, unsafe.SliceData(b))
	}
}
