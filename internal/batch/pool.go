package batch

import (
	"cmp"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// The pool has eight size classes for each power of two between minClassBits and maxClassBits: 256,
// 288, 320 … 512, 576 … bytes. So, for sizes of at least 256 bytes, at most a ninth of newly
// allocated memory is unused. Of reused memory, which may be of the next larger class, at most a
// fifth is unused.
const (
	minClassBits    = 8  // 256 bytes
	maxClassBits    = 26 // 64 MiB
	classesPerPower = 8
	classCount      = classesPerPower*(maxClassBits-minClassBits) + 1
)

// Trimming is an allocator that can drop the freed memory that it keeps.
type Trimming interface {
	memory.Allocator
	// Trim drops the memory that has been free since the previous Trim, and
	// reports whether any memory was allocated or freed since then.
	Trim() (used bool)
}

// MaxFree is the maximum of freed memory that a Pool keeps, in bytes.
const MaxFree = 96 << 20

// NewAllocator returns the allocator for decoding and staging: a new Pool, wrapped
// in a Poison in invariant builds.
func NewAllocator() Trimming { return NewBoundedAllocator(MaxFree) }

// NewBoundedAllocator is like NewAllocator, but the pool keeps at most maxFree bytes of freed
// memory.
func NewBoundedAllocator(maxFree int64) Trimming {
	pool := &Pool{maxFree: min(maxFree, MaxFree)}
	if invariant.On {
		return NewPoison(pool)
	}
	return pool
}

// Pool is an allocator that reuses freed memory, by size classes up to 64 MiB; larger allocations
// use the Go heap directly. Memory is aligned to 64 bytes and not cleared: this package and
// arrow-go's builders of plain columns write everything that they use, but arrow-go's Parquet
// reader does not, so decoders must clear it first. The pool keeps at most MaxFree bytes of freed
// memory, and leaves the rest to the garbage collector. (A sync.Pool would keep freed memory until
// the second garbage collection, and so most of the heap if collections are rare.) Trim drops
// memory that is not used for a while. The zero value is ready to use. A Pool is safe for
// concurrent use.
type Pool struct {
	maxFree int64 // maximum of free; 0: MaxFree

	mu      sync.Mutex
	classes [classCount][]*byte // the starts of free blocks, in the order they were freed
	idle    [classCount]int     // how many of the first blocks have been free since the last Trim
	free    int64               // total bytes in classes
	evict   int                 // the class from which memory is discarded next
	used    bool                // whether the pool was used since the last Trim
}

// class returns the smallest class whose blocks hold size bytes, and the size of its blocks; ok is
// false if there is no such class.
func class(size int) (n, room int, ok bool) {
	if size <= 1<<minClassBits {
		return 0, 1 << minClassBits, true
	}
	power := bits.Len(uint(size-1)) - 1 // 1<<power < size <= 1<<(power+1)
	step := 1 << power / classesPerPower
	n = (size - 1 - 1<<power) / step // full steps above the power
	at := classesPerPower*(power-minClassBits) + n + 1
	return at, 1<<power + (n+1)*step, at < classCount
}

// classRoom returns the size of a class in bytes.
func classRoom(n int) int {
	power := minClassBits + n/classesPerPower
	return 1<<power + n%classesPerPower*(1<<power/classesPerPower)
}

// Allocate returns size bytes with undefined contents.
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

// pop returns free memory of a class or of the next larger class, or nil if there is none.
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

// keep adds free memory to a class. If the pool then exceeds its limit, it discards
// memory of all classes in turn, so that unused classes do not fill the pool.
func (p *Pool) keep(n, room int, start *byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = true
	p.classes[n] = append(p.classes[n], start)
	p.free += int64(room)
	for p.free > cmp.Or(p.maxFree, MaxFree) {
		p.discard(p.evict, min(1, len(p.classes[p.evict])))
		p.evict = (p.evict + 1) % classCount
	}
}

// discard drops the first count blocks of a class. p.mu is held.
func (p *Pool) discard(n, count int) {
	clear(p.classes[n][:count])
	p.classes[n] = p.classes[n][count:]
	p.idle[n] = max(p.idle[n]-count, 0)
	p.free -= int64(count) * int64(classRoom(n))
}

// Trim implements Trimming. Blocks freed last are reused first, so that the first
// blocks of a class stay idle if fewer suffice.
func (p *Pool) Trim() (used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.classes {
		p.discard(n, p.idle[n])
		p.idle[n] = len(p.classes[n])
		if p.idle[n] == 0 {
			p.classes[n] = nil // frees the slice, too
		}
	}
	used, p.used = p.used, false
	return used
}

// Reallocate returns size bytes that start with those of b, which must not be used
// anymore. It moves the memory only if it is too small or more than four times too
// large.
func (p *Pool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) && size > cap(b)/4 {
		return b[:size]
	}
	out := p.Allocate(size)
	copy(out, b)
	p.Free(b)
	return out
}

// Free returns memory to the pool. A slice whose capacity or alignment is not the
// pool's is left to the garbage collector.
func (p *Pool) Free(b []byte) {
	if cap(b) == 0 || !isAligned(b) {
		return
	}
	if n, room, pooled := class(cap(b)); pooled && room == cap(b) {
		p.keep(n, room, unsafe.SliceData(b))
	}
}
