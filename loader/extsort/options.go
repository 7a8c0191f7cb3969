package extsort

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/partition"
)

// Layout defines the partition of each row, and the order of the rows within a partition.
type Layout struct {
	// Partition has the fields of the partition spec in their order. Without fields, all rows
	// are in one partition.
	Partition []partition.By
	// Sort has the columns to sort by. If it is empty, rows are sorted by the columns of Key,
	// ascending, with nulls first. If Key is empty, too, rows stay in the order in which they were
	// added.
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
	// Contains sets found[i] to whether the set contains the key in row i of a batch. The columns
	// of the batch are the columns of the key, in the key's order.
	Contains(ctx context.Context, keys arrow.RecordBatch, found []bool) error
}

// RunStore is a list of batches outside of memory. Its methods are safe for concurrent use.
type RunStore interface {
	// Append writes a batch and returns its number. The batch still belongs to the caller. The
	// error is Exhausted if there is no room for the batch.
	Append(b arrow.RecordBatch) (int, error)
	// Read reads a batch. The caller releases it.
	Read(number int) (arrow.RecordBatch, error)
	// Size returns the bytes of memory that a batch takes once Read has returned it.
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
	// Disk returns an empty store. what is the name of the store in errors.
	Disk func(what string) (RunStore, error)
	// WorkingMemory is the target for the memory that the Sorter uses, in bytes. 0 means half of
	// the budget, or 256 MiB if the budget is unlimited.
	WorkingMemory int64
	// Spare is memory for rows beyond the working memory, which several Sorters share. It bounds
	// such rows in addition to Budget. nil: there is none.
	Spare *budget.Budget
	// BatchBytes is the maximum size of a batch of the result; only a batch of one row may be
	// larger. 0 means 8 MiB. Batches are smaller if the working memory is small.
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
	// Each is called with the rows that are not dropped, in the order in which they are added; it
	// may be nil. The batches may differ from those of Add. The rows still belong to the Sorter,
	// and Each is called on the goroutine that calls Add.
	Each func(ctx context.Context, rows AddedRows) error
}

// AddedRows are rows with the types of the result.
type AddedRows struct {
	Columns    []arrow.Array
	Partitions []int32 // by row, the number of its partition
	// Values returns the values of a partition, in the same form as Partition.Values.
	Values func(partition int32) []any
}

// Partition is one partition of the result.
type Partition struct {
	// Values has a value for each field of Layout.Partition, in the same form as
	// catalog.File.Partition.
	Values []any
	Rows   int64
}

// SortCounts are the counts of a Sorter.
type SortCounts struct {
	Rows         int64 // added
	Dropped      int64 // added rows whose key is not in the set of keys
	NullKeys     int64 // added rows with a null in the key
	Runs         int64 // written to disk, including merged ones
	Merges       int64 // merges of runs on disk before the rows are read
	BytesSpilled int64 // written to disk, in total
}
