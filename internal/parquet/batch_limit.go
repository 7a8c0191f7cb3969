package parquet

import (
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// defaultRunBytes is the default of ReadOptions.RunBytes: far below the 2 GiB that the
// offsets of a string column can address, and enough for full batches of strings of 2
// KiB.
const defaultRunBytes = 32 << 20

// limitBatch reduces the rows of a batch if a byte-array column could come out much
// larger than its pages: a dictionary stores a long value once, but a batch repeats it.
// maxLength returns the length of the dictionary's longest value.
func (r *Reader) limitBatch(leaf int, c pageStats, maxLength func() (int64, error)) error {
	described := r.file.meta.Schema.Column(leaf)
	valueBytes := int64(0)
	var far deltaSizes
	if c.hasDeltas {
		var err error
		if far, err = r.checkDeltas(leaf); err != nil {
			return err
		}
	}
	switch described.PhysicalType() {
	case parquet.Types.ByteArray:
		valueBytes = max(c.maxMeanValue, far.maxValue)
		// The longest value, if all others were empty.
		if bound := c.dictionary.bytes - 4*c.dictionary.values; c.dictionary.values > 0 && r.rowsFor(&c, bound) < r.group.maxRows {
			value, err := maxLength()
			if err != nil {
				return err
			}
			valueBytes = max(valueBytes, value)
		}
	case parquet.Types.FixedLenByteArray:
		valueBytes = int64(described.TypeLength())
	}
	r.group.maxRows = min(r.group.maxRows, r.rowsFor(&c, valueBytes))
	// The library assembles delta-encoded values in memory of its own.
	together := min(far.maxPage, far.maxValue*valuesDecoded(r.group.maxRows, described))
	if err := r.account.reserve(together, 0); err != nil {
		return err
	}
	r.group.heap += together
	return nil
}

// valuesDecoded is the maximum number of values that the library decodes at once for the
// given rows.
func valuesDecoded(rows int64, described *schema.Column) int64 {
	if described.MaxRepetitionLevel() == 0 {
		return rows
	}
	return 2 * max(rows, minLevels)
}

// rowsFor returns how many rows with values of a length fit in RunBytes, at least one.
// Lists count with their average length.
func (r *Reader) rowsFor(c *pageStats, length int64) int64 {
	perRow := max((c.values+c.rows-1)/max(c.rows, 1), 1)
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
	defer p.release()
	for {
		next, err := p.next()
		if next == nil || err != nil {
			return maxBytes, err
		}
		if !next.dictionary {
			return maxBytes, nil // dictionaries precede the data
		}
		for values := next.values; len(values) > 0; {
			length, ok := byteArrayAt(values, 0)
			if !ok {
				return 0, errDictionary
			}
			maxBytes, values = max(maxBytes, int64(length)), values[4+length:]
		}
	}
}
