package deletes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// bitmap is a set of positions in a file. All positions with the same upper 32 bits are in one
// part; the parts are in ascending order of these bits.
type bitmap struct{ parts []part }

type part struct {
	upper uint32
	lower *roaring.Bitmap
}

// Memory of a bitmap in bytes, without the values of its containers.
const (
	bytesOfBitmap    = 400
	bytesOfContainer = 136 // a container covers 65,536 rows
	bytesOfPosition  = 4   // a two-byte value in an array that may have spare capacity
	containerShift   = 16
	halfShift        = 32
)

// part returns the bitmap of the part with the given upper bits. It adds the part if it does not
// exist.
func (b *bitmap) part(upper uint32) *roaring.Bitmap {
	at, ok := slices.BinarySearchFunc(b.parts, upper, func(p part, upper uint32) int { return int(int64(p.upper) - int64(upper)) })
	if !ok {
		b.parts = slices.Insert(b.parts, at, part{upper: upper, lower: roaring.New()})
	}
	return b.parts[at].lower
}

// add adds positions, which must not be negative.
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

// union adds the positions of another set, which is not changed.
func (b *bitmap) union(other *bitmap) {
	for _, p := range other.parts {
		if !p.lower.IsEmpty() {
			b.part(p.upper).Or(p.lower)
		}
	}
}

// mark sets bit i for each position first+i in the set, for i < n.
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

// highest returns the largest position, or -1 if the set is empty.
func (b *bitmap) highest() int64 {
	for _, p := range slices.Backward(b.parts) {
		if !p.lower.IsEmpty() {
			return int64(p.upper)<<halfShift + int64(p.lower.Maximum())
		}
	}
	return -1
}

// count returns the number of positions.
func (b *bitmap) count() int64 {
	n := int64(0)
	for _, p := range b.parts {
		n += int64(p.lower.GetCardinality())
	}
	return n
}

// bytes estimates the memory that the set takes.
func (b *bitmap) bytes() int64 {
	n := int64(bytesOfBitmap)
	for _, p := range b.parts {
		n += bytesOfBitmap + int64(p.lower.GetSizeInBytes()) + bytesOfContainer*int64(p.lower.Stats().Containers)
	}
	return n
}

// errTrailing is the error for bytes after a bitmap.
var errTrailing = errors.New("bytes follow the bitmap")

// minPartBytes is the stored size of the smallest part: its upper half and a bitmap without
// containers.
const minPartBytes = 12

// readBitmap decodes the portable format of 64-bit Roaring bitmaps: the number of parts, then
// the upper half and the 32-bit bitmap of each. The bytes are not trusted.
func readBitmap(stored []byte) (b *bitmap, err error) {
	defer func() {
		if r := recover(); r != nil { // the library trusts stored lengths
			b, err = nil, fmt.Errorf("the bitmap cannot be decoded: %v", r)
		}
	}()
	r := bytes.NewReader(stored)
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, err
	}
	if n > uint64(r.Len())/minPartBytes {
		return nil, fmt.Errorf("%d bytes cannot hold the stated %d parts", r.Len(), n)
	}
	b = &bitmap{parts: make([]part, n)}
	for i := range b.parts {
		p := &b.parts[i]
		if err := binary.Read(r, binary.LittleEndian, &p.upper); err != nil {
			return nil, err
		}
		if i > 0 && b.parts[i-1].upper >= p.upper || p.upper>>(halfShift-1) != 0 {
			return nil, fmt.Errorf("part %d has the upper half %d, which is out of order or range", i, p.upper)
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
