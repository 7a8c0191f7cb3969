package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// census is what the headers of a column chunk's pages declare: what decoding them
// takes is known before anything is decompressed.
type census struct {
	pages      int64
	values     int64 // of the data pages, nulls included
	most       int64 // values of the largest data page
	plain      int64 // bytes of all pages before compression
	wide       int64 // bytes before compression of a value, on average in the widest data page
	headers    int64 // bytes of all headers
	longest    int64 // bytes of the longest header
	dictionary int64 // bytes of the dictionary before compression
	entries    int64 // its values

	body   growth // the data pages before compression, one after another in one buffer
	coded  growth // the pages as they are stored, likewise
	deltas bool   // some page is of a delta encoding
	bare   bool   // some page has no checksum
}

// growth is a buffer that is made larger where what comes next does not fit. While
// it moves, there is the old one and the new.
type growth struct{ size, peak int64 }

func (g *growth) hold(n int64) {
	if n > g.size {
		g.peak = max(g.peak, g.size+n)
		g.size = n
	}
}

// checkPages follows the pages of a leaf's chunk. No checksum covers a page's
// header, so it is held to what the footer says of the chunk: how many values it
// has, without which the last list could be cut short, how many bytes before
// compression, and how they are encoded. With sums it verifies the checksum of
// every page that has one, which the library does not. A chunk whose headers cannot
// be followed is damaged.
func (f *Footer) checkPages(group, leaf int, chunk []byte, sums bool) (census, error) {
	described := f.meta.RowGroups[group].Columns[leaf].MetaData
	listed := map[parquet.Encoding]bool{}
	for _, e := range described.Encodings {
		listed[oneName(parquet.Encoding(e))] = true
	}
	c := census{}
	for t := (thrift{rest: chunk}); len(t.rest) > 0; {
		before := len(t.rest)
		h, body, err := t.body()
		if err == nil && sums {
			err = h.check(body)
		}
		if err == nil {
			err = c.add(&h, int64(before-len(t.rest)-len(body)), f.meta.Schema.Column(leaf))
		}
		if err != nil {
			return c, err
		}
		if e := parquet.Encoding(h.encoding); h.holdsValues() && len(listed) > 0 && !listed[oneName(e)] {
			return c, fmt.Errorf("a page is encoded as %s, which its row group does not list", e)
		}
	}
	switch {
	case c.values != described.NumValues:
		return c, fmt.Errorf("the pages have %d values, the footer counts %d", c.values, described.NumValues)
	case described.TotalUncompressedSize > 0 && c.plain-c.dictionary > described.TotalUncompressedSize+c.headers:
		// Writers count the headers or do not; old ones do not count the dictionary, or nothing.
		return c, fmt.Errorf("the pages have %d bytes before compression, the footer counts %d", c.plain, described.TotalUncompressedSize)
	}
	return c, nil
}

// add counts a page with a header of so many bytes.
func (c *census) add(h *pageHeader, header int64, described *schema.Column) error {
	if h.kind != pageDictionary && !h.holdsValues() {
		return nil
	}
	if h.plain < 0 || h.plain > mostPage || h.count < 0 {
		return errPageSize
	}
	c.bare = c.bare || h.crc == nil
	if h.kind == pageDictionary && h.count > h.plain/max(leastWidth(described), 1) {
		return fmt.Errorf("a dictionary of %d bytes has %d values", h.plain, h.count)
	}
	c.count(h, header)
	return nil
}

// count counts a page that holds values, or their dictionary.
func (c *census) count(h *pageHeader, header int64) {
	c.pages++
	c.plain, c.headers, c.longest = c.plain+h.plain, c.headers+header, max(c.longest, header)
	c.coded.hold(h.size)
	if h.kind == pageDictionary {
		c.dictionary, c.entries = c.dictionary+h.plain, c.entries+h.count
		return
	}
	c.values, c.most = c.values+h.count, max(c.most, h.count)
	c.body.hold(h.plain)
	if h.count > 0 {
		c.wide = max(c.wide, (h.plain+h.count-1)/h.count)
	}
	switch parquet.Encoding(h.encoding) {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray:
		c.deltas = true
	}
}

// leastWidth is the fewest bytes that a plain value takes.
func leastWidth(described *schema.Column) int64 {
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

// holdsValues says whether the page holds values, and is not their dictionary.
func (h *pageHeader) holdsValues() bool { return h.kind == pageData || h.kind == pageDataV2 }

// strange says whether the writer is one of those whose chunks are longer than they
// say, which the library knows.
func (f *Footer) strange() bool {
	return f.meta.WriterVersion().LessThan(metadata.Parquet816FixedVersion)
}

// oneName gives the two names of indices into a dictionary as one.
func oneName(e parquet.Encoding) parquet.Encoding {
	if e == parquet.Encodings.PlainDict {
		return parquet.Encodings.RLEDict
	}
	return e
}

// ownMemory is what this package takes for a chunk besides the batch: decompressed
// pages, as the others are read where they lie, and where strings of a dictionary are.
func (c *census) ownMemory(codec compress.Compression, described *schema.Column) int64 {
	bytes := int64(0)
	if described.PhysicalType() == parquet.Types.ByteArray {
		bytes = c.entries * viewBytes
	}
	if codec == compress.Codecs.Uncompressed {
		return bytes
	}
	return bytes + c.dictionary + c.body.size
}

const (
	// sliceBytes is what a slice takes, of which the library makes one for each
	// value of a dictionary or a batch that is bytes.
	sliceBytes = 24
	// leastBuffer is what the library's buffers for stored pages begin with.
	leastBuffer = 16 << 10
	// rounding is what the library's buffers for a chunk's pages are rounded up by, together.
	rounding = 6 * 64
	// leastLevels is the least number of levels that the library decodes at once.
	leastLevels = 1 << 10
)

// libraryMemory is what the library takes for a chunk besides the batch: buffers of
// scratch, as it copies each page as it is stored before it decompresses it; and
// what it makes without asking anybody. chunk is what it copies of the chunk itself,
// or the buffer of its stream; rows are those of a batch.
func (c *census) libraryMemory(chunk, rows int64, described *schema.Column) (scratch, heap int64) {
	coded := growth{size: leastBuffer, peak: leastBuffer}
	if c.coded.size > coded.size {
		coded.peak = leastBuffer + c.coded.peak
	}
	scratch = coded.peak + c.body.peak + c.dictionary + rounding
	sum := chunk + 4*c.longest
	value := int64(described.PhysicalType().ByteSize())
	switch described.PhysicalType() {
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		value = sliceBytes
		sum += sliceBytes * min(valuesOf(rows, described), c.values)
	}
	sum += 3 * value * c.entries // a slice that grows, and what is appended to it
	if c.deltas {
		sum += 2 * 4 * c.most // lengths of values and of prefixes
	}
	return scratch, sum
}

// decoded estimates the bytes of the chunk's rows in memory. Often repeated strings
// of a dictionary come out larger.
func (c *census) decoded(rows int64, described *schema.Column) int64 {
	sum := max(c.plain, c.values*int64(described.PhysicalType().ByteSize()))
	// Where lists begin; pages say it in less.
	return sum + int64(described.MaxRepetitionLevel())*rows*4
}
