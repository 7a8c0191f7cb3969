package page

import (
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Chunk describes a column chunk, as a footer does.
type Chunk struct {
	Column       *schema.Column
	Codec        compress.Compression
	Encodings    []parquet.Encoding // of the pages and of their levels
	Values       int64              // number of values in the data pages, including nulls
	Uncompressed int64              // bytes before compression
}

// EncodedAs reports whether each page is plain, dictionary-encoded, or has one of the given other
// encodings. Writers also list the encodings of levels: parquet-mr lists BIT_PACKED for the levels
// that a column does not have. Pages with such levels are refused as they are read.
func (c *Chunk) EncodedAs(others ...parquet.Encoding) bool {
	for _, e := range c.Encodings {
		switch e {
		case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE, parquet.Encodings.BitPacked:
		default:
			if !slices.Contains(others, e) {
				return false
			}
		}
	}
	return true
}
