package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

// pageStats sums up the page headers of a column chunk. It bounds what decoding the chunk
// takes before anything is decompressed.
type pageStats struct {
	pages         int64
	rows          int64 // set by addLeaf
	values        int64 // of data pages, with nulls
	maxPageValues int64 // values of the largest data page
	uncompressed  int64 // uncompressed bytes of all pages
	maxMeanValue  int64 // uncompressed bytes per value, in the data page where that is largest
	headerBytes   int64 // bytes of all page headers
	maxHeader     int64 // bytes of the longest page header
	dictionary    dictionaryStats

	body          growingBuffer // of the data pages, decompressed one after another
	stored        growingBuffer // of the pages as stored, likewise
	hasDeltas     bool          // some page has a delta encoding
	hasPrefixes   bool          // some page is encoded as DELTA_BYTE_ARRAY
	hasValues     bool          // some data page has values instead of indices of the dictionary
	lacksChecksum bool          // some page has no checksum
}

// dictionaryStats sums up the header of a dictionary page.
type dictionaryStats struct{ bytes, values int64 } // bytes are uncompressed

// growingBuffer models a buffer that is reallocated when the next page does not fit. The
// old and the new memory exist together for a moment.
type growingBuffer struct{ size, peak int64 }

func (g *growingBuffer) grow(n int64) {
	if n > g.size {
		g.peak = max(g.peak, g.size+n)
		g.size = n
	}
}

// checkPages walks the page headers of a column chunk. No checksum covers a page header,
// so checkPages compares them with the footer: the number of values (without which the
// last list could be cut short), the uncompressed size and the encodings. With verify it
// also checks the checksum of each page that has one, which the library does not. A chunk
// whose headers cannot be parsed is corrupt.
func checkPages(of *chunkInfo, chunk []byte, verify bool) (pageStats, error) {
	listed := map[parquet.Encoding]bool{}
	for _, e := range of.Encodings {
		listed[canonical(e)] = true
	}
	c := pageStats{}
	err := c.walk(chunk, of.Column, verify, func(h *pageHeader) error {
		if e := parquet.Encoding(h.encoding); h.isData() && len(listed) > 0 && !listed[canonical(e)] {
			return unlisted(e)
		}
		return nil
	})
	switch {
	case err != nil:
		return c, err
	case c.values != of.Values:
		return c, fmt.Errorf("the pages have %d values, the footer counts %d", c.values, of.Values)
	case of.Uncompressed > 0 && c.uncompressed-c.dictionary.bytes > of.Uncompressed+c.headerBytes:
		// Some writers count page headers, others do not; old ones leave out the
		// dictionary page, or write 0.
		return c, fmt.Errorf("the pages have %d bytes before compression, the footer counts %d", c.uncompressed, of.Uncompressed)
	}
	return c, nil
}

// walk adds the pages of a column chunk, or of a part of one, and calls each with their headers. With verify it also checks
// their checksums.
func (c *pageStats) walk(chunk []byte, described *schema.Column, verify bool, each func(*pageHeader) error) error {
	for t := (thrift.Reader{Rest: chunk}); len(t.Rest) > 0; {
		before := len(t.Rest)
		h, body, err := readBody(&t)
		if err == nil && verify {
			err = h.check(body)
		}
		if err == nil {
			err = c.add(&h, int64(before-len(t.Rest)-len(body)), described)
		}
		if err == nil {
			err = each(&h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a page whose header has the given length.
func (c *pageStats) add(h *pageHeader, header int64, described *schema.Column) error {
	if h.kind != pageDictionary && !h.isData() {
		return nil
	}
	if h.uncompressed < 0 || h.uncompressed > maxPage || h.count < 0 {
		return errPageSize
	}
	c.lacksChecksum = c.lacksChecksum || h.crc == nil
	if h.kind == pageDictionary && h.count > h.uncompressed/max(minValueWidth(described), 1) {
		return fmt.Errorf("a dictionary of %d bytes has %d values", h.uncompressed, h.count)
	}
	c.count(h, header)
	return nil
}

// count adds a data page or a dictionary page.
func (c *pageStats) count(h *pageHeader, header int64) {
	c.pages++
	c.uncompressed, c.headerBytes, c.maxHeader = c.uncompressed+h.uncompressed, c.headerBytes+header, max(c.maxHeader, header)
	c.stored.grow(h.stored)
	if h.kind == pageDictionary {
		c.dictionary.bytes, c.dictionary.values = c.dictionary.bytes+h.uncompressed, c.dictionary.values+h.count
		return
	}
	c.values, c.maxPageValues = c.values+h.count, max(c.maxPageValues, h.count)
	c.body.grow(h.uncompressed)
	if h.count > 0 {
		c.maxMeanValue = max(c.maxMeanValue, (h.uncompressed+h.count-1)/h.count)
	}
	c.hasValues = c.hasValues || canonical(parquet.Encoding(h.encoding)) != parquet.Encodings.RLEDict
	switch parquet.Encoding(h.encoding) {
	case parquet.Encodings.DeltaByteArray:
		c.hasDeltas, c.hasPrefixes = true, true
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray:
		c.hasDeltas = true
	}
}

// unlisted returns the error for a page of an encoding that the footer does not list.
func unlisted(e parquet.Encoding) error {
	return fmt.Errorf("a page is encoded as %s, which its row group does not list", e)
}

// minValueWidth is the minimum width of a plain value in bytes.
func minValueWidth(described *schema.Column) int64 {
	switch described.PhysicalType() {
	case parquet.Types.ByteArray:
		return 4
	case parquet.Types.FixedLenByteArray:
		return int64(described.TypeLength())
	case parquet.Types.Boolean:
		return 0
	default:
		return int64(described.PhysicalType().ByteSize())
	}
}

// decodedWidth is the width in bytes of a decoded value, or less than that if it varies.
func decodedWidth(described *schema.Column) int64 {
	if _, ok := described.LogicalType().(schema.DecimalLogicalType); ok {
		return int64(arrow.Decimal128SizeBytes)
	}
	if described.PhysicalType() == parquet.Types.FixedLenByteArray {
		return int64(described.TypeLength())
	}
	return int64(described.PhysicalType().ByteSize())
}

// isData reports whether the page is a data page.
func (h *pageHeader) isData() bool { return h.kind == pageData || h.kind == pageDataV2 }

// canonical returns RLEDict for both names of dictionary indices.
func canonical(e parquet.Encoding) parquet.Encoding {
	if e == parquet.Encodings.PlainDict {
		return parquet.Encodings.RLEDict
	}
	return e
}

// decoderMemory is the scratch memory that the decoders of this package take for a chunk:
// decompressed pages (uncompressed ones are read in place), the positions of strings in a
// dictionary, and the last value of deltas of fixed-length bytes.
func (c *pageStats) decoderMemory(codec compress.Compression, described *schema.Column) int64 {
	if codec == compress.Codecs.Uncompressed {
		return c.valueMemory(described)
	}
	return c.valueMemory(described) + c.dictionary.bytes + c.body.size
}

// valueMemory is decoderMemory without the pages.
func (c *pageStats) valueMemory(described *schema.Column) int64 {
	switch {
	case described.PhysicalType() == parquet.Types.ByteArray:
		return c.dictionary.values * viewBytes
	case described.PhysicalType() == parquet.Types.FixedLenByteArray && c.hasPrefixes:
		return int64(described.TypeLength())
	}
	return 0
}

const (
	// viewBytes is the size of the position of a string in a dictionary.
	viewBytes = 8
	// sliceBytes is the size of a slice header. The library makes one for each byte-array
	// value of a dictionary or a batch.
	sliceBytes = 24
	// minPageBuffer is the initial size of the library's buffer for stored pages.
	minPageBuffer = 16 << 10
	// rounding bounds what the library adds to its buffers for a chunk's pages by
	// rounding their sizes up.
	rounding = 6 * 64
	// minLevels is the minimum number of levels that the library decodes at once.
	minLevels = 1 << 10
)

// libraryMemory is the memory that the library takes for a chunk besides the batch: scratch
// buffers, as it copies each stored page before it decompresses it, and memory of the Go heap that
// it allocates by itself. chunk is the bytes that it copies of the chunk, or the size of its stream
// buffer; rows is the length of a batch.
func (c *pageStats) libraryMemory(chunk, rows int64, described *schema.Column) (scratch, heap int64) {
	stored := growingBuffer{size: minPageBuffer, peak: minPageBuffer}
	if c.stored.size > stored.size {
		stored.peak = minPageBuffer + c.stored.peak
	}
	scratch = stored.peak + c.body.peak + c.dictionary.bytes + rounding
	sum := chunk + 4*c.maxHeader
	value := int64(described.PhysicalType().ByteSize())
	switch described.PhysicalType() {
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		value = sliceBytes
		sum += sliceBytes * min(valuesDecoded(rows, described), c.values)
	}
	sum += 3 * value * c.dictionary.values // a slice that grows, and a copy to append to
	if c.hasDeltas {
		sum += 2 * 4 * c.maxPageValues // lengths of values and of prefixes
	}
	return scratch, sum
}

// valuesDecoded is the maximum number of values that the library decodes at once for the
// given rows.
func valuesDecoded(rows int64, described *schema.Column) int64 {
	if described.MaxRepetitionLevel() == 0 {
		return rows
	}
	return 2 * max(rows, minLevels)
}

// maxPageHeader bounds the size of the page headers written here, which have few fields.
const maxPageHeader = 64

// plainBytes bounds the size of the pages with plain values.
func (c *pageStats) plainBytes(width int64) int64 {
	return c.uncompressed + c.values*width + c.pages*maxPageHeader
}

// decodedBytes estimates the size of the chunk's rows in memory. Strings that repeat a
// dictionary value take more.
func (c *pageStats) decodedBytes(rows int64, described *schema.Column) int64 {
	sum := max(c.uncompressed, c.values*decodedWidth(described))
	// List offsets: pages store them in fewer bytes, as levels.
	return sum + int64(described.MaxRepetitionLevel())*rows*4
}
