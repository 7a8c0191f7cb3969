package write

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/fault"
)

// codePages makes compressed pages of codes from the library's plain pages without compression. A page that
// would make the dictionary too large stays plain, and so do those after it.
type codePages struct {
	table  valueCodes // nil: it was given up
	values []byte     // then, the dictionary
	width  int        // bytes of a value
	levels int        // streams of levels before the values of a page
	codec  compress.Codec
	level  int // of compression
	kept   int // values of the dictionary that pages refer to
	coded  int // pages with codes
	pages  [][]byte
	stored int64 // bytes of pages
	plain  int64 // bytes of pages before compression

	codes   []uint32 // of a page
	scratch []byte   // a page before compression
}

// plainHeader has the offsets in the header of a page of the library.
type plainHeader struct {
	sizes    int // of the first size
	rest     int // of what follows the sizes
	encoding int
	body     int // size of the data, not an offset
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

// readHeader reads the first fields of a header of a data page: type, sizes, values and encoding. Another form
// is Internal.
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

// add adds a page of the library.
func (p *codePages) add(head, body []byte) error {
	h, err := readHeader(head)
	if err != nil {
		return err
	}
	values := 0 // where they start
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
		p.values, p.table, p.codes, p.scratch = p.table.plain(p.kept), nil, nil, nil
	}
	p.pages = append(p.pages, p.page(head, h, body, coded))
	return nil
}

// encode puts levels and codes into scratch, unless the dictionary is too large.
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

// page returns a page with a header like that of the library's.
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

func (p *codePages) compress(body []byte) []byte {
	return p.codec.EncodeLevel(make([]byte, 0, p.codec.CompressBound(int64(len(body)))), body, p.level)
}

// dictionary returns the page of the dictionary; nil: no page has codes.
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
