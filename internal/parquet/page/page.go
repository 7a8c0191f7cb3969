package page

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

// MaxBytes is the maximum uncompressed size of a page, the same as in the library: a
// damaged header may declare any size.
const MaxBytes = 256 << 20

// Reader splits a column chunk into pages in place, whereas the library copies each page before it
// decompresses it, and parses the page header into a tree. Reader uses the library only to
// decompress.
type Reader struct {
	rest     []byte // the rest of the chunk, from the next page on
	then     []byte // the pages that follow rest, from another part of the chunk
	codec    compress.Codec
	stored   bool // not compressed
	repeated bool // whether pages have repetition levels
	optional bool // whether pages have definition levels
	scratch  memory.Allocator

	known      []byte // the decompressed dictionary, if it is shared
	dictionary []byte // allocated from scratch
	body       []byte // allocated from scratch
}

// Page is one page. Its bytes alias the chunk or scratch memory. The bytes of a dictionary remain
// valid until Release; the bytes of other pages are valid until the next call of Next.
type Page struct {
	Dictionary bool
	Count      int // values, or levels if there are any
	Encoding   parquet.Encoding
	Repetition []byte // as stored
	Definition []byte
	Values     []byte
}

// ErrLevels is the error for a page that has levels although its column has none, or too many or
// too few levels.
var ErrLevels = errors.New("the levels of a page do not match its schema")

// ErrSize is the error for a page that does not have the size that its header declares, or is too
// large.
var ErrSize = errors.New("a page does not have the size that its header declares")

var errPageShort = errors.New("a page is shorter than its levels")

// NewReader returns a Reader of the pages of a chunk. If then is not nil, chunk and then are two
// parts of the chunk, and the dictionary, if there is one, is in the first part.
func NewReader(of *Chunk, chunk, then []byte, scratch memory.Allocator) (*Reader, error) {
	p := &Reader{
		rest: chunk, then: then, stored: of.Codec == compress.Codecs.Uncompressed, scratch: scratch,
		repeated: of.Column.MaxRepetitionLevel() > 0, optional: of.Column.MaxDefinitionLevel() > 0,
	}
	var err error
	p.codec, err = compress.GetCodec(of.Codec)
	return p, err
}

// Scratch returns the allocator of the pages.
func (p *Reader) Scratch() memory.Allocator { return p.scratch }

// SetDictionary sets the decompressed dictionary, if it is shared.
func (p *Reader) SetDictionary(values []byte) { p.known = values }

// TakeDictionary returns the memory of the dictionary that was read. Release then no longer frees
// this memory.
func (p *Reader) TakeDictionary() []byte {
	out := p.dictionary
	p.dictionary = nil
	return out
}

// SkipDictionary skips the next page if it is a dictionary.
func (p *Reader) SkipDictionary() {
	t := thrift.Reader{Rest: p.rest}
	if h, _, err := ReadBody(&t); err == nil && h.Kind == Dictionary {
		p.rest = t.Rest
	}
}

// Next returns the next data or dictionary page, or nil after the last.
func (p *Reader) Next() (*Page, error) {
	for len(p.rest) > 0 || len(p.then) > 0 {
		if len(p.rest) == 0 {
			p.rest, p.then = p.then, nil
		}
		t := thrift.Reader{Rest: p.rest}
		h, body, err := Read(&t)
		if err != nil {
			return nil, err
		}
		p.rest = t.Rest
		if h.Kind != Dictionary && !h.IsData() {
			continue // nothing is missed unnoticed: Check compares the number of values with the footer
		}
		return p.open(&h, body)
	}
	return nil, nil //nolint:nilnil // no page is no error
}

// open decompresses a page and separates levels from values.
func (p *Reader) open(h *Header, body []byte) (*Page, error) {
	out := &Page{Count: int(h.Count), Encoding: parquet.Encoding(h.Encoding)}
	if h.Uncompressed < 0 || h.Uncompressed > MaxBytes || h.Count < 0 {
		return nil, ErrSize
	}
	var err error
	switch h.Kind {
	case Dictionary:
		out.Dictionary = true
		if p.known != nil && int64(len(p.known)) == h.Uncompressed {
			out.Values = p.known
			return out, nil
		}
		out.Values, err = p.decompress(&p.dictionary, body, h.Uncompressed, !p.stored)
	case Data:
		if out.Values, err = p.decompress(&p.body, body, h.Uncompressed, !p.stored); err == nil {
			err = p.splitLevels(out, h)
		}
	case DataV2:
		levels := h.RepetitionBytes + h.definitionBytes
		if h.RepetitionBytes < 0 || h.definitionBytes < 0 || levels > int64(len(body)) || levels > h.Uncompressed {
			return nil, errPageShort
		}
		if !p.repeated && h.RepetitionBytes > 0 || !p.optional && h.definitionBytes > 0 {
			return nil, ErrLevels
		}
		out.Repetition, out.Definition = body[:h.RepetitionBytes], body[h.RepetitionBytes:levels]
		out.Values, err = p.decompress(&p.body, body[levels:], h.Uncompressed-levels, !p.stored && h.valuesCompressed)
	}
	return out, err
}

// decompress returns the body itself if it is not compressed. Otherwise it returns the decompressed
// body, in the memory that into refers to, which it replaces if it is too small.
func (p *Reader) decompress(into *[]byte, body []byte, size int64, compressed bool) ([]byte, error) {
	if compressed && len(body) > 0 {
		if int64(cap(*into)) < size {
			p.scratch.Free(*into)
			*into = nil
			*into = p.scratch.Allocate(int(size))
		}
		var err error
		if body, err = compress.Decode(p.codec, (*into)[:size], body); err != nil {
			return nil, fmt.Errorf("a page cannot be decompressed: %w", err)
		}
	}
	if int64(len(body)) != size {
		return nil, ErrSize
	}
	return body, nil
}

// splitLevels separates the levels of a version 1 page from its values. The levels precede the
// values; repetition and definition levels each have their length in front.
func (p *Reader) splitLevels(out *Page, h *Header) error {
	for _, kind := range []struct {
		there    bool
		encoding int64
		into     *[]byte
	}{
		{p.repeated, h.repetitionEncoding, &out.Repetition},
		{p.optional, h.DefinitionEncoding, &out.Definition},
	} {
		if !kind.there {
			continue
		}
		if encoding := parquet.Encoding(kind.encoding); encoding != parquet.Encodings.RLE {
			return fmt.Errorf("levels are encoded as %s", encoding)
		}
		if len(out.Values) < 4 {
			return errPageShort
		}
		length := uint64(binary.LittleEndian.Uint32(out.Values))
		if length > uint64(len(out.Values)-4) {
			return errPageShort
		}
		*kind.into, out.Values = out.Values[4:4+length], out.Values[4+length:]
	}
	return nil
}

// Release frees the memory.
func (p *Reader) Release() {
	p.scratch.Free(p.dictionary)
	p.scratch.Free(p.body)
	*p = Reader{scratch: p.scratch}
}
