package parquet

import (
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// defaultRunBytes is the default of ReadOptions.RunBytes: far below the 2 GiB that
// the offsets of one column's strings reach, and enough for strings of 2 KiB in
// batches that are not shortened.
const defaultRunBytes = 32 << 20

// shorten lessens the rows of a batch where a column of bytes could otherwise come
// out far larger than its pages: a dictionary holds a long value once, and a batch
// as often as its rows say. longestValue looks for the longest one.
func (r *Reader) shorten(leaf int, c census, longestValue func() (int64, error)) error {
	described := r.file.meta.Schema.Column(leaf)
	longest := int64(0)
	var far reach
	if c.deltas {
		var err error
		if far, err = r.checkDeltas(leaf); err != nil {
			return err
		}
	}
	switch described.PhysicalType() {
	case parquet.Types.ByteArray:
		longest = max(c.wide, far.longest)
		// The longest, if all others were empty.
		if most := c.dictionary - 4*c.entries; c.entries > 0 && r.rowsOf(&c, most) < r.run {
			value, err := longestValue()
			if err != nil {
				return err
			}
			longest = max(longest, value)
		}
	case parquet.Types.FixedLenByteArray:
		longest = int64(described.TypeLength())
	}
	r.run = min(r.run, r.rowsOf(&c, longest))
	// The library puts values together that are told by their differences.
	together := min(far.page, far.longest*valuesOf(r.run, described))
	if err := r.account.ask(together, 0); err != nil {
		return err
	}
	r.heap += together
	return nil
}

// valuesOf is the most values that the library decodes at once for so many rows.
func valuesOf(rows int64, described *schema.Column) int64 {
	if described.MaxRepetitionLevel() == 0 {
		return rows
	}
	return 2 * max(rows, leastLevels)
}

// rowsOf returns how many rows of values of a length make a run: one at least. Lists
// count as long as they are on average.
func (r *Reader) rowsOf(c *census, length int64) int64 {
	rows := r.file.groups[r.group].Rows
	perRow := max((c.values+rows-1)/rows, 1)
	most := r.opts.RunBytes
	if length > most/perRow {
		return 1
	}
	return max(most/max(length*perRow, 1), 1)
}

// longestValue decompresses a leaf's dictionary and looks for its longest value.
func (r *Reader) longestValue(leaf int) (longest int64, err error) {
	defer recovered(&err, r.file.Location(), "a dictionary cannot be read")
	p, err := r.file.newPages(r.group, leaf, r.source.loaded(r.file.chunkSpan(r.group, leaf)), r.scratch)
	if err != nil {
		return 0, err
	}
	defer p.close()
	for {
		next, err := p.next()
		if next == nil || err != nil {
			return longest, err
		}
		if !next.dictionary {
			return longest, nil // dictionaries stand before the data
		}
		for values := next.values; len(values) > 0; {
			length, ok := textAt(values, 0)
			if !ok {
				return 0, errDictionary
			}
			longest, values = max(longest, int64(length)), values[4+length:]
		}
	}
}
