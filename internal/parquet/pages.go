package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

// maxPage is the maximum uncompressed size of a page, the same as in the library: a
// damaged header may declare any size.
const maxPage = 256 << 20

// pages splits a column chunk into pages in place. The library copies each page before it
// decompresses it, and parses its header into a tree. Decompression is left to the
// library.
type pages struct {
	rest     []byte // of the chunk, from the next page on
	then     []byte // pages after rest, elsewhere in the chunk
	codec    compress.Codec
	stored   bool // not compressed
	repeated bool // whether pages have repetition levels
	optional bool // whether pages have definition levels
	scratch  memory.Allocator

	known      []byte // the decompressed dictionary, if it is shared
	dictionary []byte // allocated from scratch
	body       []byte // allocated from scratch
}

// page is one page. Its bytes alias the chunk or scratch memory: a dictionary's remain
// valid until release, those of other pages until the next page.
type page struct {
	dictionary bool
	count      int // values, or levels if there are any
	encoding   parquet.Encoding
	repetition []byte // as stored
	definition []byte
	values     []byte
}

var (
	errLevels    = errors.New("the levels of a page do not match its schema")
	errPageShort = errors.New("a page is shorter than its levels")
	errPageSize  = errors.New("a page does not have the size that its header declares")
)

// newPages returns the pages of a chunk.
func newPages(of *chunkInfo, chunk []byte, scratch memory.Allocator) (*pages, error) {
	p := &pages{
		rest: chunk, stored: of.Codec == compress.Codecs.Uncompressed, scratch: scratch,
		repeated: of.Column.MaxRepetitionLevel() > 0, optional: of.Column.MaxDefinitionLevel() > 0,
	}
	var err error
	p.codec, err = compress.GetCodec(of.Codec)
	return p, err
}

// next returns the next data or dictionary page, or nil after the last.
func (p *pages) next() (*page, error) {
	for len(p.rest) > 0 || len(p.then) > 0 {
		if len(p.rest) == 0 {
			p.rest, p.then = p.then, nil
		}
		t := thrift.Reader{Rest: p.rest}
		h, body, err := readPage(&t)
		if err != nil {
			return nil, err
		}
		p.rest = t.Rest
		if h.kind != pageDictionary && !h.isData() {
			continue // checkPages compares the number of values with the footer's
		}
		return p.open(&h, body)
	}
	return nil, nil //nolint:nilnil // no page is no error
}

// open decompresses a page and separates levels from values.
func (p *pages) open(h *pageHeader, body []byte) (*page, error) {
	out := &page{count: int(h.count), encoding: parquet.Encoding(h.encoding)}
	if h.uncompressed < 0 || h.uncompressed > maxPage || h.count < 0 {
		return nil, errPageSize
	}
	var err error
	switch h.kind {
	case pageDictionary:
		out.dictionary = true
		if p.known != nil && int64(len(p.known)) == h.uncompressed {
			out.values = p.known
			return out, nil
		}
		out.values, err = p.decompress(&p.dictionary, body, h.uncompressed, !p.stored)
	case pageData:
		if out.values, err = p.decompress(&p.body, body, h.uncompressed, !p.stored); err == nil {
			err = p.splitLevels(out, h)
		}
	case pageDataV2:
		levels := h.repetitionBytes + h.definitionBytes
		if h.repetitionBytes < 0 || h.definitionBytes < 0 || levels > int64(len(body)) || levels > h.uncompressed {
			return nil, errPageShort
		}
		if !p.repeated && h.repetitionBytes > 0 || !p.optional && h.definitionBytes > 0 {
			return nil, errLevels
		}
		out.repetition, out.definition = body[:h.repetitionBytes], body[h.repetitionBytes:levels]
		out.values, err = p.decompress(&p.body, body[levels:], h.uncompressed-levels, !p.stored && h.valuesCompressed)
	}
	return out, err
}

// decompress returns the decompressed body in memory that it keeps in into, or the body
// itself if it is not compressed.
func (p *pages) decompress(into *[]byte, body []byte, size int64, compressed bool) ([]byte, error) {
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
		return nil, errPageSize
	}
	return body, nil
}

// splitLevels separates the levels of a version 1 page from its values. They precede the
// values, each with its length.
func (p *pages) splitLevels(out *page, h *pageHeader) error {
	for _, kind := range []struct {
		there    bool
		encoding int64
		into     *[]byte
	}{
		{p.repeated, h.repetitionEncoding, &out.repetition},
		{p.optional, h.definitionEncoding, &out.definition},
	} {
		if !kind.there {
			continue
		}
		if encoding := parquet.Encoding(kind.encoding); encoding != parquet.Encodings.RLE {
			return fmt.Errorf("levels are encoded as %s", encoding)
		}
		if len(out.values) < 4 {
			return errPageShort
		}
		length := uint64(binary.LittleEndian.Uint32(out.values))
		if length > uint64(len(out.values)-4) {
			return errPageShort
		}
		*kind.into, out.values = out.values[4:4+length], out.values[4+length:]
	}
	return nil
}

// release frees the memory.
func (p *pages) release() {
	p.scratch.Free(p.dictionary)
	p.scratch.Free(p.body)
	*p = pages{scratch: p.scratch}
}
