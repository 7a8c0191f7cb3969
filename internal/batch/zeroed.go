package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Zeroed returns an allocator that clears the memory that under allocates. It is needed for code of
// the Arrow library that does not write all memory that it allocates: MakeArrayOfNull writes no
// buffer at all, and the Parquet reader does not write the offsets of empty nested lists and the
// values under nulls.
func Zeroed(under memory.Allocator) memory.Allocator { return zeroed{under} }

type zeroed struct{ under memory.Allocator }

func (z zeroed) Allocate(size int) []byte {
	b := z.under.Allocate(size)
	clear(b)
	return b
}

func (z zeroed) Reallocate(size int, b []byte) []byte {
	had := len(b)
	out := z.under.Reallocate(size, b)
	if size > had {
		clear(out[had:])
	}
	return out
}

func (z zeroed) Free(b []byte) { z.under.Free(b) }

// Nulls returns n nulls of a type, in memory from mem. The values under the nulls are zero. Use it
// instead of array.MakeArrayOfNull, which leaves the content of the memory that mem allocates.
func Nulls(t arrow.DataType, n int, mem memory.Allocator) arrow.Array {
	return array.MakeArrayOfNull(Zeroed(mem), t, n)
}

// ResizeBits sets the length of a buffer to n bits, and clears them.
func ResizeBits(b *memory.Buffer, n int) {
	b.Resize(int(bitutil.BytesForBits(int64(n))))
	clear(b.Bytes())
}
