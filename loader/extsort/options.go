package extsort

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/partition"
)

// Layout defines the partition of a row and the order of the rows in it.
type Layout struct {
	// Partition has the fields of the partition spec in their order. Without fields, all rows
	// are in one partition.
	Partition []partition.By
	// Sort has the columns to sort by; without columns it is the key's, ascending, with nulls
	// first. If the key has none either, rows stay in the order in which they were added.
	Sort []SortColumn
	// Key has the positions of the key's columns in the schema.
	Key []int
}

// SortColumn sorts rows by one column.
type SortColumn struct {
	Column int // its position in the schema
	Order  sortkey.ColumnOrder
}

// KeySet is a set of keys. It is safe for concurrent use.
type KeySet interface {
	// Contains sets found[i] to whether the set contains the key in row i of a batch, whose
	// columns are those of the key in its order.
	Contains(ctx context.Context, keys arrow.RecordBatch, found []bool) error
}

// RunStore is a list of batches outside of memory. Its methods are safe for concurrent use.
type RunStore interface {
	// Append writes a batch, which it borrows, and returns its number. The error is
	// Exhausted if there is no room for the batch.
	Append(b arrow.RecordBatch) (int, error)
	// Read reads a batch. The caller releases it.
	Read(number int) (arrow.RecordBatch, error)
	// Size returns the bytes of memory that Read of the batch takes.
	Size(number int) int64
	// Bytes returns the number of bytes written.
	Bytes() int64
	// Release frees the space.
	Release()
}

// Options configure a Sorter. Disk is required.
type Options struct {
	Budget *budget.Budget   // nil is unlimited
	Memory memory.Allocator // of rows; nil: the Go heap
	// Disk returns an empty store; what is its name in errors.
	Disk func(what string) (RunStore, error)
	// WorkingMemory is the memory to aim at, in bytes. 0 means half of the budget, or
	// 256 MiB if it is unlimited.
	WorkingMemory int64
	// BatchBytes limits the batches of the result: only a batch of one row has more bytes.
	// 0 means 8 MiB, or less if that is much of the working memory.
	BatchBytes int64
	// Threads is the number of goroutines that sort and copy at once; 0 means 1.
	Threads int
	// Readers is the number of partitions that the caller reads at once; 0 means 1.
	Readers int
	// MaxPartitions limits the number of partitions; 0 means 100,000.
	MaxPartitions int
	// Keys drops rows whose key is not in the set, and all rows with a null in the key; nil
	// drops none.
	Keys KeySet
	// Each is called with the rows that are not dropped, in the order in which they are added, whatever their batches. It
	// borrows them, and is called by the goroutine of Add; nil: no function is.
	Each func(ctx context.Context, rows AddedRows) error
}

// AddedRows are rows with the types of the result.
type AddedRows struct {
	Columns    []arrow.Array
	Partitions []int32 // by row, the number of its partition
	// Values returns the values of a partition, as Partition has them.
	Values func(partition int32) []any
}

// Partition is one partition of the result.
type Partition struct {
	// Values has a value for each field of the layout's Partition, as catalog.File has them.
	Values []any
	Rows   int64
}

// SortCounts are the counts of a Sorter.
type SortCounts struct {
	Rows         int64 // added
	Dropped      int64 // of them, not in the set of keys
	NullKeys     int64 // of them, with a null in the key
	Runs         int64 // written to disk, including merged ones
	Merges       int64 // of runs on disk into fewer ones, before rows are read
	BytesSpilled int64 // written to disk, in total
}
