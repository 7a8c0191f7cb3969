package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// Input is a stream that the joiner opens itself, so that a failure to open
// one of several leaks none of the others.
type Input struct {
	// Open starts the stream. The joiner releases what it returns.
	Open func(ctx context.Context) (array.RecordReader, error)
	// Key holds the positions of the key columns in the stream's schema, in
	// the order of the other side's.
	Key []int
	// Columns holds the positions of the columns that go on into the result,
	// in its order. Key columns go on only if they stand here.
	Columns []int
	// File names the file of a row, counted from 0 in the order in which the
	// stream gave its rows. It is asked only while the stream is open or was
	// read whole, for errors.
	File func(row int64) string
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
