package parquet

import (
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// defaultRunBytes is the default of ReadOptions.RunBytes: far below the 2 GiB that the
// offsets of a string column can address, and enough for full batches of strings of 2
// KiB.
const defaultRunBytes = 32 << 20

// limitBatch reduces the rows of a batch if a column that the library decodes could come out much
// larger than its pages: a dictionary stores a long value once, but a batch repeats it.
func (r *Reader) limitBatch(leaf int, c page.Stats) error {
	var far decoder.DeltaSizes
	if c.HasDeltas {
		var err error
		if far, err = r.checkDeltas(leaf); err != nil {
			return err
		}
	}
	described := r.file.meta.Schema.Column(leaf)
	switch described.PhysicalType() {
	case parquet.Types.ByteArray:
		if err := r.limitValues(c, far.MaxValue, func() (int64, error) { return r.maxDictionaryValue(leaf) }); err != nil {
			return err
		}
	case parquet.Types.FixedLenByteArray:
		r.limitFixed(leaf, c)
	}
	// The library assembles delta-encoded values in memory of its own.
	together := min(far.MaxPage, far.MaxValue*page.ValuesDecoded(r.group.maxRows, described))
	if err := r.account.Reserve(together); err != nil {
		return err
	}
	r.group.heap += together
	return nil
}

// limitText is limitBatch for a column of strings that this package decodes.
func (r *Reader) limitText(text *decoder.Text, leaf int, c page.Stats) error {
	var far decoder.DeltaSizes
	if c.HasPrefixes { // else no value is longer than its page
		var err error
		if far, err = r.checkDeltas(leaf); err != nil {
			return err
		}
	}
	if err := r.scratch.Extend(far.MaxValue); err != nil {
		return err
	}
	text.Expect(int(far.MaxValue))
	return r.limitValues(c, far.MaxValue, text.MaxLength)
}

// limitFixed is limitBatch for values whose width is fixed.
func (r *Reader) limitFixed(leaf int, c page.Stats) {
	if described := r.file.meta.Schema.Column(leaf); described.PhysicalType() == parquet.Types.FixedLenByteArray {
		r.group.maxRows = min(r.group.maxRows, r.rowsFor(&c, page.DecodedWidth(described)))
	}
}

// limitValues reduces the rows of a batch for values of a variable length. maxDelta is the length
// of the longest value among the deltas; maxLength returns that in the dictionary.
func (r *Reader) limitValues(c page.Stats, maxDelta int64, maxLength func() (int64, error)) error {
	valueBytes := max(c.MaxMeanValue, maxDelta)
	// The longest value, if all others were empty.
	if bound := c.Dictionary.Bytes - 4*c.Dictionary.Values; c.Dictionary.Values > 0 && r.rowsFor(&c, bound) < r.group.maxRows {
		value, err := maxLength()
		if err != nil {
			return err
		}
		valueBytes = max(valueBytes, value)
	}
	r.group.maxRows = min(r.group.maxRows, r.rowsFor(&c, valueBytes))
	return nil
}

// checkDeltas validates the parts of a leaf's pages that the library trusts.
func (r *Reader) checkDeltas(leaf int) (out decoder.DeltaSizes, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	p, err := r.pages(leaf)
	if err != nil {
		return out, err
	}
	defer p.Release()
	return decoder.MeasureDeltas(p)
}

// rowsFor returns how many rows with values of a length fit in RunBytes, at least one.
// Lists count with their average length.
func (r *Reader) rowsFor(c *page.Stats, length int64) int64 {
	perRow := max((c.Values+c.Rows-1)/max(c.Rows, 1), 1)
	limit := r.opts.RunBytes
	if length > limit/perRow {
		return 1
	}
	return max(limit/max(length*perRow, 1), 1)
}

// maxDictionaryValue returns the length of the longest value in a leaf's dictionary,
// which it decompresses.
func (r *Reader) maxDictionaryValue(leaf int) (maxBytes int64, err error) {
	defer recovered(&err, r.file.Location(), "a dictionary cannot be read")
	p, err := r.pages(leaf)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	return decoder.LongestEntry(p)
}
