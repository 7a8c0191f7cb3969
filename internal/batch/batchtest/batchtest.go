// Package batchtest makes small batches for tests, and counts what code allocates.
package batchtest

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// IDSchema returns a schema with the column id.
func IDSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
}

// IDs returns a batch of IDSchema with the numbers from one to another, without the last.
func IDs(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, IDSchema())
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i)) //nolint:forcetypeassert // the schema above
	}
	return b.NewRecordBatch()
}

// Counting is an allocator that counts all bytes that it allocates; memory that is freed still counts.
type Counting struct {
	memory.Allocator
	Bytes int64
}

// Allocate implements memory.Allocator.
func (c *Counting) Allocate(size int) []byte {
	c.Bytes += int64(size)
	return c.Allocator.Allocate(size)
}

// Reallocate implements memory.Allocator.
func (c *Counting) Reallocate(size int, b []byte) []byte {
	c.Bytes += int64(max(0, size-len(b)))
	return c.Allocator.Reallocate(size, b)
}
