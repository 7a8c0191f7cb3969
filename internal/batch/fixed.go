package batch

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fixed gathers values of a fixed width in bytes. Values under nulls become zero, because their
// bytes may be left from another stream that used the same pooled memory.
func (g *gathering) fixed(width int, inputs []input, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.buffer(rows * width)
	b, valid, first := out.Bytes(), []byte(nil), 0
	if validity != nil {
		valid = validity.Bytes()
	}
	for _, p := range inputs {
		of := first // the copy may be deferred
		g.copies(p, width, func(p input, from int) {
			copyFixed(b, width, p, of+from)
			clearNulls(b, width, nulls(valid, of+from, of+from+p.rows))
		})
		first += p.rows
	}
	return out
}

// copyFixed copies the selected values of a source to the rows of all that begin at row at.
func copyFixed(all []byte, width int, p input, at int) {
	to := all[at*width : (at+p.rows)*width]
	switch width {
	case 1:
		values(view[uint8](to), p)
	case 2:
		values(view[uint16](to), p)
	case 4:
		values(view[uint32](to), p)
	case 8:
		values(view[uint64](to), p)
	case 16:
		values(view[[16]byte](to), p)
	default:
		wide(to, width, p)
	}
}

// values copies values of the width of T. Its loop over indices is the hottest loop when batches
// are cut.
func values[T any](out []T, p input) {
	if p.data == nil {
		clear(out)
		return
	}
	src := view[T](p.data.Buffers()[1].Bytes())[p.base:]
	for i, index := range p.indices {
		out[i] = src[index]
	}
	for _, s := range p.spans {
		copy(out, src[s.from:s.from+s.rows])
		out = out[s.rows:]
	}
}

// wide copies values of any other width.
func wide(out []byte, width int, p input) {
	if p.data == nil {
		clear(out)
		return
	}
	if width == 0 {
		return
	}
	src := p.data.Buffers()[1].Bytes()[p.base*width:]
	for i, index := range p.indices {
		copy(out[i*width:(i+1)*width], src[int(index)*width:])
	}
	for _, s := range p.spans {
		n := copy(out[:s.rows*width], src[s.from*width:])
		out = out[n:]
	}
}

// clearNulls clears the values of some rows.
func clearNulls(all []byte, width int, rows iter.Seq[int]) {
	for row := range rows {
		clear(all[row*width : (row+1)*width])
	}
}

// nulls yields the rows in [from, to) whose validity bit is clear. Without validity bits, it yields
// nothing.
func nulls(valid []byte, from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if valid == nil {
			return
		}
		for at := from >> 3; at<<3 < to; at++ {
			for missing := ^valid[at]; missing != 0; missing &= missing - 1 {
				row := at<<3 + bits.TrailingZeros8(missing)
				if row >= from && row < to && !yield(row) {
					return
				}
			}
		}
	}
}

// nullness describes which of the selected rows may be null.
type nullness int

const (
	noNulls    nullness = iota
	firstNulls          // only row 0, which is selected
	someNulls
)

// nullness inspects the source. Sources whose only null is row 0, as WithFirst makes them, are a
// separate case: a selection without row 0 has no nulls, and for a selection with row 0 all columns
// of the source have the same validity bits.
func (p input) nullness() nullness {
	if p.data == nil {
		return someNulls
	}
	validity := p.data.Buffers()[0]
	switch {
	case p.data.NullN() == 0 || validity == nil || validity.Len() == 0:
		return noNulls
	case p.data.NullN() != 1 || p.indices == nil || bitutil.BitIsSet(validity.Bytes(), p.base):
		return someNulls
	case p.first:
		return firstNulls
	default:
		return noNulls
	}
}

// bitmap is a validity buffer and its number of nulls. The buffer is nil if there
// are none.
type bitmap struct {
	*memory.Buffer
	nulls int
}

// validity gathers the validity bits and counts the nulls.
func (g *gathering) validity(inputs []input, rows int) bitmap {
	all, key := noNulls, make([]validityKey, len(inputs))
	for i, p := range inputs {
		n := p.nullness()
		all, key[i] = max(all, n), validityKey{p.selection, n}
	}
	switch {
	case all == noNulls:
		return bitmap{}
	case all == someNulls:
		return g.bitmap(inputs, rows)
	case !slices.Equal(key, g.last):
		g.last, g.lastBitmap = key, g.bitmap(inputs, rows)
	}
	return g.lastBitmap
}

// validityKey identifies the validity bits of an input. It does not if its nullness is someNulls.
type validityKey struct {
	*selection
	nullness
}

func (g *gathering) bitmap(inputs []input, rows int) bitmap {
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range inputs {
		switch {
		case p.data == nil: // all null: the bits are zero already
		case p.nullness() == noNulls:
			bitutil.SetBitsTo(bits, int64(at), int64(p.rows), true)
		default:
			p.bits(bits, at, 0)
		}
		at += p.rows
	}
	nulls := rows - bitutil.CountSetBits(bits, 0, rows)
	if nulls == 0 {
		return bitmap{}
	}
	return bitmap{out, nulls}
}

// booleans gathers boolean values. Values under nulls become false.
func (g *gathering) booleans(inputs []input, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range inputs {
		if p.data != nil {
			p.bits(bits, at, 1)
		}
		at += p.rows
	}
	if validity != nil {
		for i, valid := range validity.Bytes() {
			bits[i] &= valid
		}
	}
	return out
}

// bits copies the selected bits of one of the source's buffers to dst, starting
// at bit at. The destination bits must be zero.
func (p input) bits(dst []byte, at, buffer int) {
	src := p.data.Buffers()[buffer].Bytes()
	for _, s := range p.spans {
		bitutil.CopyBitmap(src, p.base+s.from, s.rows, dst, at)
		at += s.rows
	}
	indices := p.indices
	for ; at&7 != 0 && len(indices) > 0; at++ {
		dst[at>>3] |= bit(src, p.base+int(indices[0])) << (at & 7)
		indices = indices[1:]
	}
	for ; len(indices) >= 8; at += 8 {
		var octet byte
		for i, index := range indices[:8] {
			octet |= bit(src, p.base+int(index)) << i
		}
		dst[at>>3] = octet
		indices = indices[8:]
	}
	for _, index := range indices {
		dst[at>>3] |= bit(src, p.base+int(index)) << (at & 7)
		at++
	}
}

// bit returns bit i of b, as 0 or 1.
func bit(b []byte, i int) byte { return b[i>>3] >> (i & 7) & 1 }
