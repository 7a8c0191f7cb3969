package page

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

// Stats sums up the page headers of a column chunk. It bounds what decoding the chunk
// takes before anything is decompressed.
type Stats struct {
	pages         int64
	Rows          int64 // set by the caller
	Values        int64 // of data pages, with nulls
	MaxPageValues int64 // number of values of the data page with the most values
	Uncompressed  int64 // uncompressed bytes of all pages
	MaxMeanValue  int64 // uncompressed bytes per value, in the data page where that is largest
	HeaderBytes   int64 // bytes of all page headers
	maxHeader     int64 // bytes of the longest page header
	Dictionary    dictionaryStats

	Body          growingBuffer // models a buffer into which the data pages are decompressed one after another
	stored        growingBuffer // models a buffer into which the stored pages are read one after another
	HasDeltas     bool          // some page has a delta encoding
	HasPrefixes   bool          // some page is encoded as DELTA_BYTE_ARRAY
	HasValues     bool          // some data page has values instead of indices of the dictionary
	LacksChecksum bool          // some page has no checksum
}

// dictionaryStats sums up the header of a dictionary page.
type dictionaryStats struct{ Bytes, Values int64 } // bytes are uncompressed

// growingBuffer models a buffer that is reallocated when the next page does not fit. The
// old and the new memory exist together for a moment.
type growingBuffer struct{ Size, peak int64 }

func (g *growingBuffer) grow(n int64) {
	if n > g.Size {
		g.peak = max(g.peak, g.Size+n)
		g.Size = n
	}
}

// Check reads all page headers of a column chunk and returns their sums. No checksum covers a page
// header, so Check compares the headers with the footer: the number of values (otherwise the last
// list could be cut short without notice), the uncompressed size, and the encodings. If verify is
// set, it also checks the checksum of each page that has one, which the library does not do. It
// returns an error if a header cannot be parsed or contradicts the footer.
func Check(of *Chunk, chunk []byte, verify bool) (Stats, error) {
	listed := map[parquet.Encoding]bool{}
	for _, e := range of.Encodings {
		listed[canonical(e)] = true
	}
	c := Stats{}
	err := c.Walk(chunk, of.Column, verify, func(h *Header) error {
		if e := parquet.Encoding(h.Encoding); h.IsData() && len(listed) > 0 && !listed[canonical(e)] {
			return Unlisted(e)
		}
		return nil
	})
	switch {
	case err != nil:
		return c, err
	case c.Values != of.Values:
		return c, fmt.Errorf("the pages have %d values, the footer counts %d", c.Values, of.Values)
	case of.Uncompressed > 0 && c.Uncompressed-c.Dictionary.Bytes > of.Uncompressed+c.HeaderBytes:
		// Some writers count page headers, others do not; old ones leave out the
		// dictionary page, or write 0.
		return c, fmt.Errorf("the pages have %d bytes before compression, the footer counts %d", c.Uncompressed, of.Uncompressed)
	}
	return c, nil
}

// Walk adds the pages of a column chunk, or of a part of a chunk, to the sums, and calls each with
// every page header. If verify is set, it also checks the checksums of the pages.
func (c *Stats) Walk(chunk []byte, described *schema.Column, verify bool, each func(*Header) error) error {
	for t := (thrift.Reader{Rest: chunk}); len(t.Rest) > 0; {
		before := len(t.Rest)
		h, body, err := ReadBody(&t)
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

// add checks the header h of a page and adds the page to the sums. header is the length of the page
// header.
func (c *Stats) add(h *Header, header int64, described *schema.Column) error {
	if h.Kind != Dictionary && !h.IsData() {
		return nil
	}
	if h.Uncompressed < 0 || h.Uncompressed > MaxBytes || h.Count < 0 {
		return ErrSize
	}
	c.LacksChecksum = c.LacksChecksum || h.crc == nil
	if h.Kind == Dictionary && h.Count > h.Uncompressed/max(MinValueWidth(described), 1) {
		return fmt.Errorf("a dictionary of %d bytes has %d values", h.Uncompressed, h.Count)
	}
	c.Count(h, header)
	return nil
}

// Count adds a data page or a dictionary page to the sums. header is the length of the page header.
func (c *Stats) Count(h *Header, header int64) {
	c.pages++
	c.Uncompressed, c.HeaderBytes, c.maxHeader = c.Uncompressed+h.Uncompressed, c.HeaderBytes+header, max(c.maxHeader, header)
	c.stored.grow(h.Stored)
	if h.Kind == Dictionary {
		c.Dictionary.Bytes, c.Dictionary.Values = c.Dictionary.Bytes+h.Uncompressed, c.Dictionary.Values+h.Count
		return
	}
	c.Values, c.MaxPageValues = c.Values+h.Count, max(c.MaxPageValues, h.Count)
	c.Body.grow(h.Uncompressed)
	if h.Count > 0 {
		c.MaxMeanValue = max(c.MaxMeanValue, (h.Uncompressed+h.Count-1)/h.Count)
	}
	c.HasValues = c.HasValues || canonical(parquet.Encoding(h.Encoding)) != parquet.Encodings.RLEDict
	switch parquet.Encoding(h.Encoding) {
	case parquet.Encodings.DeltaByteArray:
		c.HasDeltas, c.HasPrefixes = true, true
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray:
		c.HasDeltas = true
	}
}

// Unlisted returns the error for a page of an encoding that the footer does not list.
func Unlisted(e parquet.Encoding) error {
	return fmt.Errorf("a page is encoded as %s, which its row group does not list", e)
}

// MinValueWidth is the minimum width of a plain value in bytes.
func MinValueWidth(described *schema.Column) int64 {
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

// DecodedWidth is the width in bytes of a decoded value, or less than that if it varies.
func DecodedWidth(described *schema.Column) int64 {
	if _, ok := described.LogicalType().(schema.DecimalLogicalType); ok {
		return int64(arrow.Decimal128SizeBytes)
	}
	if described.PhysicalType() == parquet.Types.FixedLenByteArray {
		return int64(described.TypeLength())
	}
	return int64(described.PhysicalType().ByteSize())
}

// IsData reports whether the page is a data page.
func (h *Header) IsData() bool { return h.Kind == Data || h.Kind == DataV2 }

// canonical returns an encoding, with RLEDict for both encodings that mean dictionary indices.
func canonical(e parquet.Encoding) parquet.Encoding {
	if e == parquet.Encodings.PlainDict {
		return parquet.Encodings.RLEDict
	}
	return e
}

// DecoderMemory is the scratch memory that the decoders of this package take for a chunk:
// decompressed pages (uncompressed ones are read in place), the positions of strings in a
// dictionary, and the last value of deltas of fixed-length bytes.
func (c *Stats) DecoderMemory(codec compress.Compression, described *schema.Column) int64 {
	if codec == compress.Codecs.Uncompressed {
		return c.valueMemory(described)
	}
	return c.valueMemory(described) + c.Dictionary.Bytes + c.Body.Size
}

// valueMemory is DecoderMemory without the decompressed pages.
func (c *Stats) valueMemory(described *schema.Column) int64 {
	switch {
	case described.PhysicalType() == parquet.Types.ByteArray:
		return c.Dictionary.Values * ViewBytes
	case described.PhysicalType() == parquet.Types.FixedLenByteArray && c.HasPrefixes:
		return int64(described.TypeLength())
	}
	return 0
}

const (
	// ViewBytes is the size of the position of a string in a dictionary.
	ViewBytes = 8
	// sliceBytes is the size of a slice header. The library makes a slice for each byte-array value
	// of a dictionary or a batch.
	sliceBytes = 24
	// minPageBuffer is the initial size of the library's buffer for stored pages.
	minPageBuffer = 16 << 10
	// rounding bounds what the library adds to its buffers for a chunk's pages by
	// rounding their sizes up.
	rounding = 6 * 64
	// minLevels is the minimum number of levels that the library decodes at once.
	minLevels = 1 << 10
)

// LibraryMemory is the memory that the library takes for a chunk besides the batch: scratch buffers
// (it copies each stored page before it decompresses the page), and memory that it allocates itself
// on the Go heap. chunk is the number of bytes of the chunk that the library copies, or the size of
// its stream buffer; rows is the length of a batch.
func (c *Stats) LibraryMemory(chunk, rows int64, described *schema.Column) (scratch, heap int64) {
	stored := growingBuffer{Size: minPageBuffer, peak: minPageBuffer}
	if c.stored.Size > stored.Size {
		stored.peak = minPageBuffer + c.stored.peak
	}
	scratch = stored.peak + c.Body.peak + c.Dictionary.Bytes + rounding
	sum := chunk + 4*c.maxHeader
	value := int64(described.PhysicalType().ByteSize())
	switch described.PhysicalType() {
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		value = sliceBytes
		sum += sliceBytes * min(ValuesDecoded(rows, described), c.Values)
	}
	sum += 3 * value * c.Dictionary.Values // a slice that grows, and a copy to append to
	if c.HasDeltas {
		sum += 2 * 4 * c.MaxPageValues // the lengths of suffixes and of prefixes
	}
	return scratch, sum
}

// ValuesDecoded is the maximum number of values that the library decodes at once for the given
// number of rows.
func ValuesDecoded(rows int64, described *schema.Column) int64 {
	if described.MaxRepetitionLevel() == 0 {
		return rows
	}
	return 2 * max(rows, minLevels)
}

// maxPageHeader bounds the size of the page headers that this package writes, which have few
// fields.
const maxPageHeader = 64

// PlainBytes bounds the size of the pages of the chunk after their values were replaced by plain
// ones.
func (c *Stats) PlainBytes(width int64) int64 {
	return c.Uncompressed + c.Values*width + c.pages*maxPageHeader
}

// DecodedBytes estimates the size of the chunk's rows in memory. Rows that repeat a string of the
// dictionary take more than this estimate.
func (c *Stats) DecodedBytes(rows int64, described *schema.Column) int64 {
	sum := max(c.Uncompressed, c.Values*DecodedWidth(described))
	// The last term is the offsets of lists, which pages store as levels, in fewer bytes.
	return sum + int64(described.MaxRepetitionLevel())*rows*4
}
