package batch

import (
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// hasNulls says whether the selected rows may hold a null. A source whose one
// null is row 0, as WithNullRow makes them, has none where row 0 is not asked
// for: the usual case of a join, which spares it all work on bits.
func (p piece) hasNulls() bool {
	if p.data == nil {
		return true
	}
	validity := p.data.Buffers()[0]
	switch {
	case p.data.NullN() == 0 || validity == nil || validity.Len() == 0:
		return false
	case p.data.NullN() == 1 && p.indices != nil && bitutil.BitIsNotSet(validity.Bytes(), p.base):
		return p.first
	default:
		return true
	}
}

// validity gathers the validity bits and counts the nulls; with none, there
// is no buffer.
func (g *gathering) validity(pieces []piece, rows int) (*memory.Buffer, int) {
	some := false
	for _, p := range pieces {
		some = some || p.hasNulls()
	}
	if !some {
		return nil, 0
	}
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range pieces {
		switch {
		case p.data == nil: // zero already
		case p.hasNulls():
			p.bits(bits, at, 0)
		default:
			bitutil.SetBitsTo(bits, int64(at), int64(p.rows), true)
		}
		at += p.rows
	}
	nulls := rows - bitutil.CountSetBits(bits, 0, rows)
	if nulls == 0 {
		return nil, 0
	}
	return out, nulls
}

// booleans gathers boolean values. Those under nulls become false.
func (g *gathering) booleans(pieces []piece, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range pieces {
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

// bits copies the selected bits of one of the source's buffers to dst, from
// bit at on. The bits there must be zero.
func (p piece) bits(dst []byte, at, buffer int) {
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
