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
func (r *Reader) limitBatch(leaf int, c pageStats, longestValue func() (int64, error)) error {
	described := r.file.meta.Schema.Column(leaf)
	longest := int64(0)
	var far deltaSizes
	if c.hasDeltas {
		var err error
		if far, err = r.checkDeltas(leaf); err != nil {
			return err
		}
	}
	switch described.PhysicalType() {
	case parquet.Types.ByteArray:
		longest = max(c.maxMeanValue, far.maxValue)
		// The longest value, if all others were empty.
		if most := c.dictionary - 4*c.entries; c.entries > 0 && r.rowsFor(&c, most) < r.run {
			value, err := longestValue()
			if err != nil {
				return err
			}
			longest = max(longest, value)
		}
	case parquet.Types.FixedLenByteArray:
		longest = int64(described.TypeLength())
	}
	r.run = min(r.run, r.rowsFor(&c, longest))
	// The library assembles delta-encoded values in memory of its own.
	together := min(far.maxPage, far.maxValue*valuesDecoded(r.run, described))
	if err := r.account.reserve(together, 0); err != nil {
		return err
	}
	r.heap += together
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
	rows := r.file.groups[r.group].Rows
	perRow := max((c.values+rows-1)/rows, 1)
	most := r.opts.RunBytes
	if length > most/perRow {
		return 1
	}
	return max(most/max(length*perRow, 1), 1)
}

// maxDictionaryValue returns the length of the longest value in a leaf's dictionary,
// which it decompresses.
func (r *Reader) maxDictionaryValue(leaf int) (longest int64, err error) {
	defer recovered(&err, r.file.Location(), "a dictionary cannot be read")
	p, err := r.file.newPages(r.group, leaf, r.source.loaded(r.file.chunkSpan(r.group, leaf)), r.scratch)
	if err != nil {
		return 0, err
	}
	defer p.release()
	for {
		next, err := p.next()
		if next == nil || err != nil {
			return longest, err
		}
		if !next.dictionary {
			return longest, nil // dictionaries precede the data
		}
		for values := next.values; len(values) > 0; {
			length, ok := byteArrayAt(values, 0)
			if !ok {
				return 0, errDictionary
			}
			longest, values = max(longest, int64(length)), values[4+length:]
		}
	}
}
