package parquet

import (
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// defaultRunBytes is the default of ReadOptions.RunBytes: far below the 2 GiB that the offsets of a
// string column can address, and enough for batches of DefaultBatchRows strings of 2 KiB.
const defaultRunBytes = 32 << 20

// limitBatch reduces the rows of a batch if a column that the library decodes could come out much
// larger than its pages: a dictionary stores a long value once, but a batch repeats it.
func (g *rowGroup) limitBatch(c *openChunk) error {
	var far decoder.DeltaSizes
	if c.stats.HasDeltas {
		var err error
		if far, err = c.checkDeltas(); err != nil {
			return err
		}
	}
	switch c.Column.PhysicalType() {
	case parquet.Types.ByteArray:
		if err := g.limitValues(c, far.MaxValue, c.maxDictionaryValue); err != nil {
			return err
		}
	case parquet.Types.FixedLenByteArray:
		g.limitFixed(c)
	}
	// The library assembles delta-encoded values in memory that it allocates itself.
	together := min(far.MaxPage, far.MaxValue*page.ValuesDecoded(g.maxRows, c.Column))
	if err := g.account.Reserve(together); err != nil {
		return err
	}
	g.heap += together
	return nil
}

// limitText is limitBatch for a column of strings that this package decodes.
func (g *rowGroup) limitText(text *decoder.Text, c *openChunk) error {
	var far decoder.DeltaSizes
	if c.stats.HasPrefixes { // otherwise no value is longer than its page
		var err error
		if far, err = c.checkDeltas(); err != nil {
			return err
		}
	}
	if err := g.scratch.Extend(far.MaxValue); err != nil {
		return err
	}
	text.Expect(int(far.MaxValue))
	return g.limitValues(c, far.MaxValue, text.MaxLength)
}

// limitFixed is limitBatch for values whose width is fixed.
func (g *rowGroup) limitFixed(c *openChunk) {
	if c.Column.PhysicalType() == parquet.Types.FixedLenByteArray {
		g.maxRows = min(g.maxRows, c.rowsFor(page.DecodedWidth(c.Column)))
	}
}

// limitValues reduces the rows of a batch for values of a variable length. maxDelta is the length
// of the longest delta-encoded value; maxLength returns the length of the longest value in the
// dictionary.
func (g *rowGroup) limitValues(c *openChunk, maxDelta int64, maxLength func() (int64, error)) error {
	valueBytes := max(c.stats.MaxMeanValue, maxDelta)
	// bound is the length that the longest value has if all other values are empty.
	dictionary := c.stats.Dictionary
	if bound := dictionary.Bytes - 4*dictionary.Values; dictionary.Values > 0 && c.rowsFor(bound) < g.maxRows {
		value, err := maxLength()
		if err != nil {
			return err
		}
		valueBytes = max(valueBytes, value)
	}
	g.maxRows = min(g.maxRows, c.rowsFor(valueBytes))
	return nil
}

// rowsFor returns how many rows fit in RunBytes if all values have the given length, at least 1. A
// row of a list column counts as a list of average length.
func (c *openChunk) rowsFor(length int64) int64 {
	perRow := max((c.stats.Values+c.stats.Rows-1)/max(c.stats.Rows, 1), 1)
	limit := c.opts.RunBytes
	if length > limit/perRow {
		return 1
	}
	return max(limit/max(length*perRow, 1), 1)
}
