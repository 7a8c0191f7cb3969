package batch

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nullness says which of the selected rows may be null.
type nullness int

const (
	noNulls    nullness = iota
	firstNulls          // those that select row 0, and no others
	someNulls
)

// nullness looks at the source. One whose only null is row 0, as WithFirst
// makes them, is told apart: where row 0 is not asked for there is no work on
// bits at all, else all columns of such a source have the same validity.
func (p part) nullness() nullness {
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

// bitmap is a validity buffer, with the nulls in it. The buffer is nil where
// there are none.
type bitmap struct {
	*memory.Buffer
	nulls int
}

// validity gathers the validity bits and counts the nulls.
func (g *gathering) validity(parts []part, rows int) bitmap {
	most, key := noNulls, make([]referrer, len(parts))
	for i, p := range parts {
		n := p.nullness()
		most, key[i] = max(most, n), referrer{p.selection, n}
	}
	switch {
	case most == noNulls:
		return bitmap{}
	case most == someNulls:
		return g.bitmap(parts, rows)
	case !slices.Equal(key, g.last):
		g.last, g.lastBitmap = key, g.bitmap(parts, rows)
	}
	return g.lastBitmap
}

// referrer is what the validity bits of a part follow from, unless they are
// its own.
type referrer struct {
	*selection
	nullness
}

func (g *gathering) bitmap(parts []part, rows int) bitmap {
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range parts {
		switch {
		case p.data == nil: // zero already
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

// booleans gathers boolean values. Those under nulls become false.
func (g *gathering) booleans(parts []part, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.zeroed(int(bitutil.BytesForBits(int64(rows))))
	bits, at := out.Bytes(), 0
	for _, p := range parts {
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
func (p part) bits(dst []byte, at, buffer int) {
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
