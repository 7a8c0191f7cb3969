package write

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/fault"
)

// codePages makes compressed pages of codes from plain, uncompressed pages that the library wrote.
// A page that would make the dictionary too large stays plain, and so do all pages after it.
type codePages struct {
	table  valueCodes // nil: the dictionary has become too large, and later pages stay plain
	used   *sync.Pool // see setting.tables
	values []byte     // the dictionary, once table is nil
	width  int        // size of a value in bytes
	levels int        // number of streams of levels before the values of a page
	codec  compress.Codec
	level  int // level of compression
	kept   int // number of values of the dictionary to which pages refer
	coded  int // number of pages with codes
	pages  [][]byte
	stored int64 // bytes of pages
	plain  int64 // size of the pages before compression

	codes   []uint32 // of a page
	scratch []byte   // a page before compression
	packed  []byte   // a page after compression
}

// plainHeader has offsets within the header of a page that the library wrote.
type plainHeader struct {
	sizes    int // offset of the first of the two sizes
	rest     int // offset of what follows the sizes
	encoding int
	body     int // size of the page's data; not an offset
}

// Bytes of Thrift's compact protocol in headers of pages.
const (
	thriftI32        = 0x15 // the next field, of 32 bits
	thriftDataHeader = 0x2c // the field after the next one, a struct
	thriftDictionary = 0x4c // the fourth field after this one, a struct
	pageData         = 0
	pageDictionary   = 2
	encodingPlain    = 0
	encodingCodes    = 8
)

// readHeader reads the first fields of the header of a data page: type, sizes, number of values and
// encoding. If the header has other fields, it returns Internal.
func readHeader(in []byte) (h plainHeader, err error) {
	at, wrong := 0, false
	head := func(want byte) {
		wrong = wrong || at >= len(in) || in[at] != want
		at++
	}
	number := func() int64 {
		if head(thriftI32); wrong {
			return 0
		}
		v, n := binary.Varint(in[at:])
		wrong = wrong || n <= 0
		at += n
		return v
	}
	kind := number()
	h.sizes = at
	plain := number()
	h.body = int(number())
	h.rest = at
	head(thriftDataHeader)
	number()
	h.encoding = at + 1
	encoding := number()
	if wrong || kind != pageData || encoding != encodingPlain || plain != int64(h.body) {
		return h, fault.New(fault.Internal, "a page header has another form than expected")
	}
	return h, nil
}

// add adds a page that the library wrote.
func (p *codePages) add(head, body []byte) error {
	h, err := readHeader(head)
	if err != nil {
		return err
	}
	values := 0 // offset of the values in the page
	for range p.levels {
		if values+4 > len(body) {
			return fault.New(fault.Internal, "a page is too short for its levels")
		}
		values += 4 + int(binary.LittleEndian.Uint32(body[values:]))
	}
	if values > len(body) || len(body) != h.body || (len(body)-values)%p.width != 0 {
		return fault.New(fault.Internal, "a page has another size than expected")
	}
	coded := p.encode(body[:values], body[values:])
	switch {
	case coded:
		body = p.scratch
		p.coded, p.kept = p.coded+1, p.table.count()
	case p.table != nil:
		p.values = p.table.plain(p.kept)
		p.freeTable()
		p.codes, p.scratch = nil, nil
	}
	p.pages = append(p.pages, p.page(head, h, body, coded))
	return nil
}

// freeTable frees the table, if there is one.
func (p *codePages) freeTable() {
	if p.table != nil {
		if p.table.empty(); p.used != nil {
			p.used.Put(p.table)
		}
		p.table = nil
	}
}

// encode puts the levels and the codes of the values into scratch. It returns false if the
// dictionary would be too large.
func (p *codePages) encode(levels, values []byte) bool {
	if p.table == nil {
		return false
	}
	var ok bool
	if p.codes, ok = p.table.code(p.codes[:0], values); !ok {
		return false
	}
	width := max(bits.Len(uint(max(p.table.count(), 1)-1)), 1)
	p.scratch = appendCodes(append(append(p.scratch[:0], levels...), byte(width)), p.codes, width)
	return true
}

// page compresses a page and returns it with the header that the library wrote, in which it changes
// the sizes and, for codes, the encoding.
func (p *codePages) page(head []byte, h plainHeader, body []byte, coded bool) []byte {
	sizes := func(out []byte, compressed int) []byte {
		out = binary.AppendVarint(append(out, thriftI32), int64(len(body)))
		return binary.AppendVarint(append(out, thriftI32), int64(compressed))
	}
	compressed := p.compress(body)
	out := make([]byte, 0, len(head)+2*binary.MaxVarintLen32+len(compressed))
	out = append(sizes(append(out, head[:h.sizes]...), len(compressed)), head[h.rest:]...)
	if coded {
		out[len(out)-len(head)+h.encoding] = 2 * encodingCodes // zigzag
	}
	p.plain += int64(len(out) + len(body))
	out = append(out, compressed...)
	p.stored += int64(len(out))
	return out
}

// compress returns a compressed page, which is valid until the next call.
func (p *codePages) compress(body []byte) []byte {
	p.packed = p.codec.EncodeLevel(slices.Grow(p.packed[:0], int(p.codec.CompressBound(int64(len(body))))), body, p.level)
	return p.packed
}

// dictionary returns the dictionary page, or nil if no page has codes.
func (p *codePages) dictionary() []byte {
	if p.coded == 0 {
		return nil
	}
	values := p.values
	if p.table != nil {
		values = p.table.plain(p.kept)
	}
	compressed := p.compress(values)
	out := make([]byte, 0, len(compressed)+32)
	for _, n := range []int{pageDictionary, len(values), len(compressed)} {
		out = binary.AppendVarint(append(out, thriftI32), int64(n))
	}
	out = binary.AppendVarint(append(out, thriftDictionary, thriftI32), int64(p.kept))
	out = append(out, thriftI32, encodingPlain, 0, 0)
	p.plain += int64(len(out) + len(values))
	return append(out, compressed...)
}
