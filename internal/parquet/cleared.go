package parquet

import "github.com/apache/arrow-go/v18/arrow/memory"

// cleared zeroes what an allocator hands out. The decoder leaves the offsets
// of empty nested lists and the values under nulls unwritten: with memory of
// any content the one breaks it and the other would show rows of another
// stream to a client.
type cleared struct{ under memory.Allocator }

func (c cleared) Allocate(size int) []byte {
	b := c.under.Allocate(size)
	clear(b)
	return b
}

func (c cleared) Reallocate(size int, b []byte) []byte {
	had := len(b)
	out := c.under.Reallocate(size, b)
	if size > had {
		clear(out[had:])
	}
	return out
}

func (c cleared) Free(b []byte) { c.under.Free(b) }
