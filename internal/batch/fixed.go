package batch

import (
	"iter"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fixed gathers values of a fixed width in bytes. Values under nulls become zero:
// their bytes may be another stream's, left in pooled memory.
func (g *gathering) fixed(width int, inputs []input, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.buffer(rows * width)
	b, valid := out.Bytes(), []byte(nil)
	if validity != nil {
		valid = validity.Bytes()
	}
	switch width {
	case 1:
		values(view[uint8](b), inputs, valid)
	case 2:
		values(view[uint16](b), inputs, valid)
	case 4:
		values(view[uint32](b), inputs, valid)
	case 8:
		values(view[uint64](b), inputs, valid)
	case 16:
		values(view[[16]byte](b), inputs, valid)
	default:
		wide(b, width, inputs, valid)
	}
	return out
}

// values gathers values of the width of T. Its loop over indices is the hottest of
// a cut.
func values[T any](all []T, inputs []input, valid []byte) {
	dst := all
	for _, p := range inputs {
		out := dst[:p.rows]
		dst = dst[p.rows:]
		if p.data == nil {
			clear(out)
			continue
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
	var zero T
	for row := range nulls(valid, len(all)) {
		all[row] = zero
	}
}

// wide gathers values of any other width.
func wide(all []byte, width int, inputs []input, valid []byte) {
	if width == 0 {
		return
	}
	dst := all
	for _, p := range inputs {
		out := dst[:p.rows*width]
		dst = dst[p.rows*width:]
		if p.data == nil {
			clear(out)
			continue
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
	for row := range nulls(valid, len(all)/width) {
		clear(all[row*width : (row+1)*width])
	}
}

// nulls yields the rows whose validity bit is clear.
func nulls(valid []byte, rows int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, octet := range valid {
			for missing := ^octet; missing != 0; missing &= missing - 1 {
				row := i*8 + bits.TrailingZeros8(missing)
				if row >= rows || !yield(row) {
					return
				}
			}
		}
	}
}
