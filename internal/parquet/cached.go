package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// CachedColumn has the values of a column of a row group, from its first row on. It is used by one
// goroutine at a time.
type CachedColumn interface {
	// Rows returns how many rows Read can return, 0 at the end.
	Rows() int64
	// Read returns the next rows, at most Rows, in memory of mem as far as it copies them. The caller releases the array.
	Read(rows int64, mem memory.Allocator) (arrow.Array, error)
	// Copied reports whether the array that was read last is a copy.
	Copied() bool
	// Skip passes the next rows.
	Skip(rows int64)
	// Release releases the column. It is idempotent.
	Release()
}

// cachedColumns are the cached columns of a row group. The zero value is those of none.
type cachedColumns struct {
	group   int
	columns []CachedColumn // by index in reading.all; nil: none, or not found
	looked  bool           // the row group's columns were looked for
}

// of returns a cached column; nil if it is read.
func (c cachedColumns) of(i int) CachedColumn {
	if i >= len(c.columns) {
		return nil
	}
	return c.columns[i]
}

// limit returns how many of the next rows make a batch: only short arrays of cached columns are copied.
func (c cachedColumns) limit(rows int64) int64 {
	for _, one := range c.columns {
		if one != nil {
			rows = min(rows, max(one.Rows(), 1))
		}
	}
	return rows
}

// skip passes the rows before the first one that is read.
func (c cachedColumns) skip(rows int64) {
	for _, one := range c.columns {
		if one != nil {
			one.Skip(rows)
		}
	}
}

func (c cachedColumns) release() {
	for _, one := range c.columns {
		if one != nil {
			one.Release()
		}
	}
}

// without returns the columns that are read: the others have no field and no leaves.
func (c cachedColumns) without(all []column) []column {
	if !slices.ContainsFunc(c.columns, func(one CachedColumn) bool { return one != nil }) {
		return all
	}
	out := slices.Clone(all)
	for i := range out {
		if c.of(i) != nil {
			out[i].field, out[i].leaves = -1, nil
		}
	}
	return out
}

// look looks for the cached columns of a row group.
func (r *reading) look(group int) cachedColumns {
	if r.opts.Cached == nil {
		return cachedColumns{}
	}
	return cachedColumns{group: group, columns: r.opts.Cached(group), looked: true}
}
