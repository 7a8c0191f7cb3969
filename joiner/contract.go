package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
)

// Input is a stream that the joiner opens itself, so that a failure to open
// one of several leaks none of the others.
type Input struct {
	// Open starts the stream. The joiner releases what it returns.
	Open func(ctx context.Context) (array.RecordReader, error)
	// Key holds the positions of the key columns in the stream's schema, in
	// the order of the other side's. Of the training stream it is not looked
	// at: each Probe has its own.
	Key []int
	// Columns holds the positions of the columns that go on into the result,
	// in its order. Key columns go on only if they stand here.
	Columns []int
	// File names the file of a row, counted from 0 in the order in which the
	// stream gave its rows. It is asked only while the stream is open or was
	// read whole, for errors; nil is a stream whose files have no names. Of a
	// staging side it may be asked from several goroutines at once, for as long
	// as the side lives.
	File func(row int64) string
}

// file names the file of a row, or "".
func (in Input) file(row int64) string {
	if in.File == nil {
		return ""
	}
	return in.File(row)
}

// Duplicates says what several staging rows of one key mean to a training row
// that asks for the key. Order is the order in which the stream gave them.
type Duplicates int

// What duplicate staging keys mean.
const (
	DuplicatesError Duplicates = iota
	DuplicatesFirst
	DuplicatesLast
)

// Rule says how one staging side is joined.
type Rule struct {
	Name         string // the level's: the dictionary column's name, and in errors
	Duplicates   Duplicates
	Inner        bool // drop training rows without a match
	MissingError bool // a training row without a match is an error
}

// Counts is what one staging side met, counted over the training rows that
// reached the join. Rows = Matched + Missing; NullKeys are among Missing.
type Counts struct {
	Rows       int64 `json:"rows"`
	Matched    int64 `json:"matched"`
	Missing    int64 `json:"missing"`
	NullKeys   int64 `json:"null_keys"`
	Duplicates int64 `json:"duplicates"` // training rows whose key several staging rows have
}

// Options says what the joiner works with.
type Options struct {
	Memory memory.Allocator // of staging rows, references and filtered batches; nil: the Go heap
	Budget *budget.Budget   // what a side's rows and index are reserved from; nil: unlimited
}

func (o Options) memory() memory.Allocator {
	if o.Memory == nil {
		return memory.DefaultAllocator
	}
	return o.Memory
}

// Probe is one staging side as a split's join uses it.
type Probe struct {
	// Rule judges the matches; its name is the dictionary column's.
	Rule Rule
	// Key holds the positions of the key columns in the training stream,
	// pairwise with the side's.
	Key []int
	// Side gives the built side with a reference, which the joiner releases.
	// It is asked once, when the first training row has come; ctx ends with the joined stream.
	Side func(ctx context.Context) (*Side, error)
	// Columns holds the side's columns: the fields of the dictionary's struct.
	Columns []arrow.Field
}

// FieldOf returns the dictionary column of a side that gives these columns,
// before anything is read: dictionary<int32, struct<columns>>, not nullable.
// The struct's fields are nullable and have no metadata, whatever the columns.
func FieldOf(name string, columns []arrow.Field) arrow.Field {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: true}
	}
	return arrow.Field{Name: name, Type: &arrow.DictionaryType{
		IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(fields...),
	}}
}
