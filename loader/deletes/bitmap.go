package deletes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// bitmap is a set of positions in a file: for each upper half of a position that
// occurs, in ascending order, the lower ones.
type bitmap struct{ parts []part }

type part struct {
	upper uint32
	lower *roaring.Bitmap
}

// Memory of a bitmap, in bytes, beside the values of its containers.
const (
	bytesOfBitmap    = 400
	bytesOfContainer = 136 // each holds positions of 65,536 rows
	bytesOfPosition  = 4   // an array of two-byte values, which may have grown by half too much
	containerShift   = 16
	halfShift        = 32
)

// part returns the part of an upper half, which it makes if need be.
func (b *bitmap) part(upper uint32) *roaring.Bitmap {
	at, ok := slices.BinarySearchFunc(b.parts, upper, func(p part, upper uint32) int { return int(int64(p.upper) - int64(upper)) })
	if !ok {
		b.parts = slices.Insert(b.parts, at, part{upper: upper, lower: roaring.New()})
	}
	return b.parts[at].lower
}

// add adds positions, which are not negative.
func (b *bitmap) add(positions []int64) {
	var open *roaring.Bitmap
	upper := int64(-1)
	for _, p := range positions {
		if p>>halfShift != upper {
			upper = p >> halfShift
			open = b.part(uint32(upper))
		}
		open.Add(uint32(p))
	}
}

// mark sets the bits of those of n positions that are in the set: bit 0 is that of the
// position first.
func (b *bitmap) mark(bits []uint64, first, n int64) {
	for _, p := range b.parts {
		base := int64(p.upper) << halfShift
		from, to := max(first, base), min(first+n, base+1<<halfShift)
		if from >= to {
			continue
		}
		it := p.lower.Iterator()
		it.AdvanceIfNeeded(uint32(from - base))
		for it.HasNext() && base+int64(it.PeekNext()) < to {
			at := base + int64(it.Next()) - first
			bits[at/wordBits] |= 1 << (at % wordBits)
		}
	}
}

// highest is the largest position; -1 if there is none.
func (b *bitmap) highest() int64 {
	for _, p := range slices.Backward(b.parts) {
		if !p.lower.IsEmpty() {
			return int64(p.upper)<<halfShift + int64(p.lower.Maximum())
		}
	}
	return -1
}

// count is how many positions there are.
func (b *bitmap) count() int64 {
	n := int64(0)
	for _, p := range b.parts {
		n += int64(p.lower.GetCardinality())
	}
	return n
}

// bytes is what the set takes.
func (b *bitmap) bytes() int64 {
	n := int64(bytesOfBitmap)
	for _, p := range b.parts {
		n += bytesOfBitmap + int64(p.lower.GetSizeInBytes()) + bytesOfContainer*int64(p.lower.Stats().Containers)
	}
	return n
}

// errTrailing is of bytes behind a bitmap.
var errTrailing = errors.New("bytes follow the bitmap")

// leastPart is the least that a part takes as stored: its upper half, and a bitmap of no
// containers.
const leastPart = 12

// readBitmap reads the portable format of 64-bit Roaring bitmaps: their number, then
// upper half and 32-bit bitmap of each. The bytes may be anything.
func readBitmap(stored []byte) (b *bitmap, err error) {
	defer func() {
		if r := recover(); r != nil { // the library trusts lengths that it reads
			b, err = nil, fmt.Errorf("the bitmap cannot be decoded: %v", r)
		}
	}()
	r := bytes.NewReader(stored)
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, err
	}
	if n > uint64(r.Len())/leastPart {
		return nil, fmt.Errorf("%d parts are said to lie in %d bytes", n, r.Len())
	}
	b = &bitmap{parts: make([]part, n)}
	for i := range b.parts {
		p := &b.parts[i]
		if err := binary.Read(r, binary.LittleEndian, &p.upper); err != nil {
			return nil, err
		}
		if i > 0 && b.parts[i-1].upper >= p.upper || p.upper>>(halfShift-1) != 0 {
			return nil, fmt.Errorf("part %d begins with %d", i, p.upper)
		}
		p.lower = roaring.New()
		if _, err := p.lower.ReadFrom(r); err != nil {
			return nil, err
		}
		if err := p.lower.Validate(); err != nil && !p.lower.IsEmpty() {
			return nil, err
		}
	}
	if r.Len() > 0 {
		return nil, errTrailing
	}
	return b, nil
}
