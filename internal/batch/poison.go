package batch

import "github.com/apache/arrow-go/v18/arrow/memory"

// poison is what spoilt memory holds: as an offset it is negative, as text no
// UTF-8, as a float no number that anyone computes.
const poison = 0xdb

// Poison is an allocator that spoils memory which must not be used: what was
// freed, what a reallocation left behind, and what is new and not yet written.
// A use after the last release then shows as wrong bytes, where the Go
// collector would have hidden it. It is as safe for concurrent use as the
// allocator under it.
type Poison struct{ under memory.Allocator }

// NewPoison puts a Poison over another allocator.
func NewPoison(under memory.Allocator) *Poison { return &Poison{under: under} }

// Allocate returns size spoilt bytes.
func (p *Poison) Allocate(size int) []byte {
	b := p.under.Allocate(size)
	spoil(b)
	return b
}

// Reallocate moves b always, so that a slice of the old memory shows.
func (p *Poison) Reallocate(size int, b []byte) []byte {
	out := p.Allocate(size)
	copy(out, b)
	p.Free(b)
	return out
}

// Free spoils b and gives it back.
func (p *Poison) Free(b []byte) {
	spoil(b)
	p.under.Free(b)
}

// Trim implements Trimming, as far as the allocator under it does.
func (p *Poison) Trim() (used bool) {
	under, ok := p.under.(Trimming)
	return ok && under.Trim()
}

func spoil(b []byte) {
	for i := range b {
		b[i] = poison
	}
}
