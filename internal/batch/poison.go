package batch

import (
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/invariant"
)

// poison is the pattern that fills poisoned memory. Read as values, it is negative offsets, invalid
// UTF-8 or implausible floats. It has both clear and set bits, so that a bitmap that was not
// written has both nulls and values.
const poison = "\x24\xdb\x24\xdb\x24\xdb\x24\xdb"

// Poison is an allocator that overwrites memory that must not be read: freed memory,
// the old memory of a reallocation, and new memory that is not yet written. A use
// after the last release then yields wrong bytes, where the Go garbage collector
// would hide the bug. It is as safe for concurrent use as the underlying allocator.
type Poison struct{ under memory.Allocator }

// NewPoison wraps an allocator in a Poison.
func NewPoison(under memory.Allocator) *Poison { return &Poison{under: under} }

// Default returns the allocator for code that is given none: Arrow's own. Invariant builds wrap it
// in a Poison, so that tests find code that relies on its cleared memory. Memory that the Arrow
// library allocates for itself stays cleared, because the library relies on that.
func Default() memory.Allocator {
	if invariant.On {
		return NewPoison(memory.DefaultAllocator)
	}
	return memory.DefaultAllocator
}

// Cleared returns an allocator like Default whose memory is cleared, for the parts of the Arrow library that rely on it. Outside
// invariant builds Arrow's own allocator clears memory already.
func Cleared() memory.Allocator {
	if invariant.On {
		return Zeroed(Default())
	}
	return memory.DefaultAllocator
}

// Allocate returns size poisoned bytes.
func (p *Poison) Allocate(size int) []byte {
	b := p.under.Allocate(size)
	fillPoison(b)
	return b
}

// Reallocate always moves b, so that uses of the old memory are exposed.
func (p *Poison) Reallocate(size int, b []byte) []byte {
	out := p.Allocate(size)
	copy(out, b)
	p.Free(b)
	return out
}

// Free poisons b and frees it.
func (p *Poison) Free(b []byte) {
	fillPoison(b)
	p.under.Free(b)
}

// Trim trims the underlying allocator if it implements Trimming.
func (p *Poison) Trim() (used bool) {
	under, ok := p.under.(Trimming)
	return ok && under.Trim()
}

func fillPoison(b []byte) {
	for n := copy(b, poison); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
