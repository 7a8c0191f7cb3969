package parquettest

import (
	"encoding/binary"
)

// Page is one page of a handmade file, as it is stored.
type Page struct {
	Dictionary bool
	Values     int   // the header counts
	Plain      int   // bytes before compression, the header says
	Encoding   int32 // of the values: 0 is plain, 5 and 7 are deltas of numbers and of bytes, 8 are indices into the dictionary
	Body       []byte
}

// Handmade is a file of one column and one row group whose parts may say anything:
// no writer writes what is to be refused.
type Handmade struct {
	Rows   int64
	Values int64 // of the column, as the footer counts them
	Codec  int32 // 0 is none, 6 is Zstandard
	Plain  int64 // bytes of the column before compression, as the footer counts them
	// List wraps the column into a list of required elements, with field ids 1 and 2.
	// Else it is required, with field id 1.
	List bool
	Text bool // the values are text, not 8-byte integers
	// Pages are those of the column.
	Pages []Page
}

// Content returns the file.
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
	s.out = append(s.out, byte(id-s.last)<<4|kind) // no two fields are further apart than 15
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

// head begins a list of at most 14 elements.
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

// blockBytes is the most that a block of Zstandard unpacks to.
const blockBytes = 128 << 10

// ZstdZeros is a frame of Zstandard that unpacks to a prefix and so many zeros, and
// does not say how many bytes that is.
func ZstdZeros(prefix []byte, zeros int) []byte {
	const raw, repeated = 0, 1
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58} // a window of 2 MiB, no size, no checksum
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

// ZstdLiar is a frame of Zstandard that holds nothing and says that it unpacks to
// so many bytes.
func ZstdLiar(declared uint64) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0 | 0x20} // eight bytes of size, no window
	out = binary.LittleEndian.AppendUint64(out, declared)
	return append(out, 0x01, 0x00, 0x00) // the last block, raw and empty
}

// Run is a run of n equal numbers of so many bytes in Parquet's hybrid of runs and
// packed numbers.
func Run(n int, value uint32, bytes int) []byte {
	out := binary.AppendUvarint(nil, uint64(n)<<1)
	for i := range bytes {
		out = append(out, byte(value>>(8*i)))
	}
	return out
}

// Levels puts the length of levels before them, as data pages of the first version
// have it.
func Levels(runs ...[]byte) []byte {
	var all []byte
	for _, r := range runs {
		all = append(all, r...)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(all))), all...)
}

// Deltas are numbers as the encoding DELTA_BINARY_PACKED has them, none packed
// tighter than in 32 bits.
func Deltas(numbers ...int32) []byte {
	const block, blocks, least = 128, 4, -1 << 24
	out := binary.AppendUvarint(nil, block)
	out = binary.AppendUvarint(out, blocks)
	out = binary.AppendUvarint(out, uint64(len(numbers)))
	out = binary.AppendVarint(out, int64(numbers[0]))
	for at := 1; at < len(numbers); at += block {
		out = append(binary.AppendVarint(out, least), 32, 32, 32, 32)
		end := min(at+block, len(numbers))
		for i := at; i < end || (i-at)%(block/blocks) != 0; i++ {
			delta := int32(0)
			if i < end {
				delta = numbers[i] - numbers[i-1] - least
			}
			out = binary.LittleEndian.AppendUint32(out, uint32(delta))
		}
	}
	return out
}
