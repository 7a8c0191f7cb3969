package parquettest

import (
	"encoding/binary"
)

// Page is a page of a Handmade file, as stored.
type Page struct {
	Dictionary bool
	Kind       int64 // another kind of page; 0: a data or dictionary page
	Values     int   // number of values in the header
	Plain      int   // uncompressed size in the header
	Encoding   int32 // of the values: 0 is plain, 5 and 7 are deltas of numbers and of bytes, 8 is dictionary indices
	Body       []byte
	V2         *PageV2 // nil: a version 1 page
}

// PageV2 has the fields that only the header of a version 2 data page has.
type PageV2 struct {
	Rows                   int // -1: not in the header
	Repetition, Definition int // bytes of the levels at the front of the body
}

// Handmade is a file of one column and one row group. Its parts may contradict each other, unlike
// in a file of any writer.
type Handmade struct {
	Rows   int64
	Values int64 // number of values in the footer
	Codec  int32 // 0 is none, 6 is Zstandard
	Plain  int64 // uncompressed size of the column in the footer
	// List makes the column a list of required elements, with field ids 1 and 2.
	// Otherwise the column has field id 1. It is required in either case.
	List bool
	Text bool // the values are strings, not 64-bit integers
	// Pages are the pages of the column.
	Pages []Page
}

// Content returns the bytes of the file.
func (h Handmade) Content() []byte {
	out := []byte("PAR1")
	var dictionary, first int64
	encodings := []int32{3}
	for _, p := range h.Pages {
		if p.Dictionary {
			dictionary = int64(len(out))
		} else if first == 0 {
			first = int64(len(out))
		}
		encodings = append(encodings, p.Encoding)
		out = append(append(out, p.header()...), p.Body...)
	}
	length := int64(len(out)) - 4
	footer := h.footer(encodings, dictionary, first, length)
	out = append(out, footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, "PAR1"...)
}

func (p Page) header() []byte {
	s := compact{}
	kind, field := int64(0), 5
	if p.Dictionary {
		kind, field = 2, 7
	}
	if p.V2 != nil {
		return p.headerV2()
	}
	if p.Kind != 0 {
		kind, field = p.Kind, 13 // no kind of page has a field with this id
	}
	s.i32(1, kind)
	s.i32(2, int64(p.Plain))
	s.i32(3, int64(len(p.Body)))
	s.object(field, func(s *compact) {
		s.i32(1, int64(p.Values))
		s.i32(2, int64(p.Encoding))
		if !p.Dictionary {
			s.i32(3, 3)
			s.i32(4, 3)
		}
	})
	return s.end()
}

func (p Page) headerV2() []byte {
	s := compact{}
	s.i32(1, 3)
	s.i32(2, int64(p.Plain))
	s.i32(3, int64(len(p.Body)))
	s.object(8, func(s *compact) {
		s.i32(1, int64(p.Values))
		s.i32(2, 0)
		if p.V2.Rows != -1 {
			s.i32(3, int64(p.V2.Rows))
		}
		s.i32(4, int64(p.Encoding))
		s.i32(5, int64(p.V2.Definition))
		s.i32(6, int64(p.V2.Repetition))
	})
	return s.end()
}

const (
	physicalInt64 = 2
	physicalBytes = 6
)

func (h Handmade) footer(encodings []int32, dictionary, first, length int64) []byte {
	physical := int64(physicalInt64)
	if h.Text {
		physical = physicalBytes
	}
	leaf := func(name string, id int64) func(*compact) {
		return func(s *compact) {
			s.i32(1, physical)
			s.i32(3, 0)
			s.text(4, name)
			if h.Text {
				s.i32(6, 0)
			}
			s.i32(9, id)
		}
	}
	group := func(name string, repetition, id int64, more func(*compact)) func(*compact) {
		return func(s *compact) {
			if repetition >= 0 {
				s.i32(3, repetition)
			}
			s.text(4, name)
			s.i32(5, 1)
			more(s)
			if id > 0 {
				s.i32(9, id)
			}
		}
	}
	nothing := func(*compact) {}
	schema := []func(*compact){group("schema", -1, 0, nothing), leaf("v", 1)}
	path := []string{"v"}
	if h.List {
		isList := func(s *compact) { s.i32(6, 3) }
		schema = []func(*compact){group("schema", -1, 0, nothing), group("v", 0, 1, isList), group("list", 2, 0, nothing), leaf("element", 2)}
		path = []string{"v", "list", "element"}
	}
	s := compact{}
	s.i32(1, 2)
	s.list(2, schema)
	s.i64(3, h.Rows)
	s.list(4, []func(*compact){func(s *compact) {
		s.list(1, []func(*compact){func(s *compact) {
			s.i64(2, 4)
			s.object(3, func(s *compact) {
				s.i32(1, physical)
				s.numbers(2, encodings)
				s.texts(3, path)
				s.i32(4, int64(h.Codec))
				s.i64(5, h.Values)
				s.i64(6, h.Plain)
				s.i64(7, length)
				s.i64(9, first)
				if dictionary > 0 {
					s.i64(11, dictionary)
				}
			})
		}})
		s.i64(2, h.Plain)
		s.i64(3, h.Rows)
	}})
	return s.end()
}

// compact writes a struct in Thrift's compact protocol.
type compact struct {
	out  []byte
	last int
}

func (s *compact) field(id int, kind byte) {
	s.out = append(s.out, byte(id-s.last)<<4|kind) // field ids are at most 15 apart
	s.last = id
}

func (s *compact) i32(id int, v int64) {
	s.field(id, 5)
	s.out = binary.AppendVarint(s.out, v)
}

func (s *compact) i64(id int, v int64) {
	s.field(id, 6)
	s.out = binary.AppendVarint(s.out, v)
}

func (s *compact) text(id int, v string) {
	s.field(id, 8)
	s.out = append(binary.AppendUvarint(s.out, uint64(len(v))), v...)
}

func (s *compact) object(id int, fill func(*compact)) {
	s.field(id, 12)
	inner := compact{}
	fill(&inner)
	s.out = append(s.out, inner.end()...)
}

// head starts a list of at most 14 elements.
func (s *compact) head(id, n int, kind byte) {
	s.field(id, 9)
	s.out = append(s.out, byte(n)<<4|kind)
}

func (s *compact) list(id int, fill []func(*compact)) {
	s.head(id, len(fill), 12)
	for _, f := range fill {
		inner := compact{}
		f(&inner)
		s.out = append(s.out, inner.end()...)
	}
}

func (s *compact) numbers(id int, v []int32) {
	s.head(id, len(v), 5)
	for _, n := range v {
		s.out = binary.AppendVarint(s.out, int64(n))
	}
}

func (s *compact) texts(id int, v []string) {
	s.head(id, len(v), 8)
	for _, t := range v {
		s.out = append(binary.AppendUvarint(s.out, uint64(len(t))), t...)
	}
}

// end returns the struct.
func (s *compact) end() []byte { return append(s.out, 0) }

// blockBytes is the maximum decompressed size of a Zstandard block.
const blockBytes = 128 << 10

// ZstdZeros returns a Zstandard frame that decompresses to prefix and the given number of
// zeros, and does not declare its size.
func ZstdZeros(prefix []byte, zeros int) []byte {
	const raw, repeated = 0, 1
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58} // window of 2 MiB, no size, no checksum
	block := func(size int, kind, last uint32) {
		head := uint32(size)<<3 | kind<<1 | last
		out = append(out, byte(head), byte(head>>8), byte(head>>16))
	}
	if len(prefix) > 0 {
		block(len(prefix), raw, 0)
		out = append(out, prefix...)
	}
	for zeros > blockBytes {
		block(blockBytes, repeated, 0)
		out = append(out, 0)
		zeros -= blockBytes
	}
	block(zeros, repeated, 1)
	return append(out, 0)
}

// ZstdLiar returns a Zstandard frame that is empty, although it declares the given decompressed
// size.
func ZstdLiar(declared uint64) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0 | 0x20} // eight bytes of size, no window
	out = binary.LittleEndian.AppendUint64(out, declared)
	return append(out, 0x01, 0x00, 0x00) // the last block, raw and empty
}

// Run returns an RLE run of n equal numbers of a width in bytes, in Parquet's
// RLE/bit-packing hybrid.
func Run(n int, value uint32, bytes int) []byte {
	out := binary.AppendUvarint(nil, uint64(n)<<1)
	for i := range bytes {
		out = append(out, byte(value>>(8*i)))
	}
	return out
}

// Levels returns runs of levels with their length in front, as stored in version 1 data
// pages.
func Levels(runs ...[]byte) []byte {
	var all []byte
	for _, r := range runs {
		all = append(all, r...)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(all))), all...)
}

// Deltas returns numbers in the encoding DELTA_BINARY_PACKED, with deltas of 32 bits.
func Deltas(numbers ...int32) []byte {
	const block, blocks, minDelta = 128, 4, -1 << 24
	out := binary.AppendUvarint(nil, block)
	out = binary.AppendUvarint(out, blocks)
	out = binary.AppendUvarint(out, uint64(len(numbers)))
	out = binary.AppendVarint(out, int64(numbers[0]))
	for at := 1; at < len(numbers); at += block {
		out = append(binary.AppendVarint(out, minDelta), 32, 32, 32, 32)
		end := min(at+block, len(numbers))
		for i := at; i < end || (i-at)%(block/blocks) != 0; i++ {
			delta := int32(0)
			if i < end {
				delta = numbers[i] - numbers[i-1] - minDelta
			}
			out = binary.LittleEndian.AppendUint32(out, uint32(delta))
		}
	}
	return out
}
