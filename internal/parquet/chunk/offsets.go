package chunk

import (
	"encoding/binary"

	"github.com/penstock/penstock/internal/fault"
)

// The types of Thrift's compact protocol that occur in an offset index.
const (
	thriftI32    = 5
	thriftI64    = 6
	thriftList   = 9
	thriftStruct = 12
)

// offsetIndex has the places of the pages of a chunk.
type offsetIndex struct {
	pages []pagePlace
	sizes []int64 // plain bytes of each page of byte arrays; nil: unknown
}

// pagePlace is the place of a page: its offset in the file, its size with its header, and its
// first row in the row group.
type pagePlace struct{ at, size, row int64 }

// shiftOffsets returns an offset index whose pages are moved by a number of bytes.
func shiftOffsets(index []byte, by int64) ([]byte, error) {
	x, err := readOffsets(index)
	if err != nil {
		return nil, err
	}
	for i := range x.pages {
		x.pages[i].at += by
	}
	return x.append(nil), nil
}

// append appends the index in the compact protocol.
func (x *offsetIndex) append(out []byte) []byte {
	head := func(count int, kind byte) {
		if count < 15 {
			out = append(out, 1<<4|thriftList, byte(count)<<4|kind)
			return
		}
		out = binary.AppendUvarint(append(out, 1<<4|thriftList, 15<<4|kind), uint64(count))
	}
	head(len(x.pages), thriftStruct)
	for _, p := range x.pages {
		out = binary.AppendVarint(append(out, 1<<4|thriftI64), p.at)
		out = binary.AppendVarint(append(out, 1<<4|thriftI32), p.size)
		out = append(binary.AppendVarint(append(out, 1<<4|thriftI64), p.row), 0)
	}
	if x.sizes != nil {
		head(len(x.sizes), thriftI64)
		for _, s := range x.sizes {
			out = binary.AppendVarint(out, s)
		}
	}
	return append(out, 0)
}

func readOffsets(index []byte) (offsetIndex, error) {
	r, out := offsetReader{rest: index}, offsetIndex{}
	for field := byte(0); !r.broken; {
		head := r.byte()
		if head == 0 {
			break
		}
		field += head >> 4
		switch kind, count := r.list(); {
		case head>>4 == 0 || head&0xf != thriftList:
			r.broken = true
		case field == 1 && kind == thriftStruct:
			for range count {
				out.pages = append(out.pages, r.place())
			}
		case field == 2 && kind == thriftI64:
			for range count {
				out.sizes = append(out.sizes, r.number())
			}
		default:
			r.broken = true
		}
	}
	if r.broken || len(r.rest) > 0 || len(out.pages) == 0 {
		return out, fault.New(fault.Corrupt, "an offset index of a Parquet file cannot be read")
	}
	return out, nil
}

// offsetReader reads an offset index.
type offsetReader struct {
	rest   []byte
	broken bool // whether the input has ended, or is not an offset index
}

func (r *offsetReader) byte() byte {
	if len(r.rest) == 0 {
		r.broken = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *offsetReader) number() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.broken = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// list reads the type and the number of a list's elements, each of which takes at least a byte.
func (r *offsetReader) list() (kind byte, count int) {
	head := r.byte()
	n := uint64(head >> 4)
	if n == 15 {
		var length int
		if n, length = binary.Uvarint(r.rest); length <= 0 {
			r.broken = true
			return 0, 0
		}
		r.rest = r.rest[length:]
	}
	if n > uint64(len(r.rest)) {
		r.broken = true
		return 0, 0
	}
	return head & 0xf, int(n)
}

func (r *offsetReader) place() (p pagePlace) {
	for field := byte(0); !r.broken; {
		head := r.byte()
		if head == 0 {
			return p
		}
		field += head >> 4
		if kind := head & 0xf; head>>4 == 0 || field > 3 || kind != thriftI32 && kind != thriftI64 {
			r.broken = true
			return p
		}
		*[]*int64{&p.at, &p.size, &p.row}[field-1] = r.number()
	}
	return p
}
