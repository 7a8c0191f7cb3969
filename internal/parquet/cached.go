package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// CachedColumn returns the values of one column of a row group, starting at the row group's first
// row. It is used by one goroutine at a time.
type CachedColumn interface {
	// Rows returns how many rows Read can return, 0 at the end.
	Rows() int64
	// Read returns the next rows, at most as many as Rows returned. If it copies them, the copy is
	// allocated from mem. The caller releases the array.
	Read(rows int64, mem memory.Allocator) (arrow.Array, error)
	// Copied reports whether the array that Read returned last is a copy.
	Copied() bool
	// Skip skips the given number of rows.
	Skip(rows int64)
	// Release releases the column. It is idempotent.
	Release()
}

// cachedColumns are the cached columns of a row group. The zero value has no columns.
type cachedColumns struct {
	group   int
	columns []CachedColumn // by index in reading.all; nil entries are not cached
	looked  bool           // the row group's columns were looked for
}

// of returns the cached column with an index in reading.all, or nil if the column is not cached.
func (c cachedColumns) of(i int) CachedColumn {
	if i >= len(c.columns) {
		return nil
	}
	return c.columns[i]
}

// limit returns how many of the next rows make a batch: at most as many as each cached column can
// return in one call of Read.
func (c cachedColumns) limit(rows int64) int64 {
	for _, one := range c.columns {
		if one != nil {
			rows = min(rows, max(one.Rows(), 1))
		}
	}
	return rows
}

// skip skips rows of all cached columns: the rows before the first one that the Reader returns.
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

// without returns all columns, but the cached ones without field and leaves, so that they are not
// read.
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

// look asks ReadOptions.Cached for the cached columns of a row group.
func (r *reading) look(group int) cachedColumns {
	if r.opts.Cached == nil {
		return cachedColumns{}
	}
	return cachedColumns{group: group, columns: r.opts.Cached(group), looked: true}
}
