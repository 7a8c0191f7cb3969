package batch

import (
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fixed gathers values of one width in bytes. Values under nulls become zero.
func (g *gathering) fixed(width int, pieces []piece, rows int, validity *memory.Buffer) *memory.Buffer {
	out := g.buffer(rows * width)
	b := out.Bytes()
	switch width {
	case 1:
		values(view[uint8](b), pieces)
	case 2:
		values(view[uint16](b), pieces)
	case 4:
		values(view[uint32](b), pieces)
	case 8:
		values(view[uint64](b), pieces)
	case 16:
		values(view[[16]byte](b), pieces)
	default:
		wide(b, width, pieces)
	}
	if validity != nil {
		clearNulls(b, width, validity.Bytes(), rows)
	}
	return out
}

// values gathers values of the width of T. The loop over indices is the
// hottest of the cut.
func values[T any](dst []T, pieces []piece) {
	for _, p := range pieces {
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
}

// wide gathers values of any other width.
func wide(dst []byte, width int, pieces []piece) {
	for _, p := range pieces {
		out := dst[:p.rows*width]
		dst = dst[p.rows*width:]
		if p.data == nil || width == 0 {
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
}

// clearNulls zeroes the values under nulls, whose bytes mean nothing and may
// be what another stream left in pooled memory.
func clearNulls(b []byte, width int, validity []byte, rows int) {
	for i, valid := range validity {
		if valid == 0xff {
			continue
		}
		for row := i * 8; row < min(i*8+8, rows); row++ {
			if valid>>(row&7)&1 == 0 {
				clear(b[row*width : (row+1)*width])
			}
		}
	}
}
