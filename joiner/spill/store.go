package spill

import (
	"errors"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// Store is a list of batches outside of memory. Its methods are safe for concurrent use.
type Store interface {
	// Append writes a batch and returns its number. The batch still belongs to the caller. The
	// error is Exhausted if and only if there is no room for the batch.
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

// ErrDiskFull matches (see errors.Is) errors that are Exhausted because a store had no room. It
// does not match errors that are Exhausted because of a lack of memory.
var ErrDiskFull = errors.New("no room on local disk")

// diskFullError is an error of a store that had no room.
type diskFullError struct{ error }

// Unwrap returns the store's error.
func (e diskFullError) Unwrap() error { return e.error }

// Is reports whether the error is ErrDiskFull.
func (e diskFullError) Is(target error) bool { return target == ErrDiskFull }

// Options has the joiner's options, and options for rows that do not fit in memory.
type Options struct {
	joiner.Options
	// Disk returns an empty store. Errors call the store by the name in the parameter what.
	Disk func(what string) (Store, error)
	// WorkingMemory is the target for the memory to use, in bytes. 0 means a quarter of the budget,
	// or less if more than two streams are open. If the budget is unlimited, 0 means 64 MiB.
	WorkingMemory int64
	// ExpectedBytes is the expected memory of the rows; 0 means unknown. It only affects the number
	// of slices.
	ExpectedBytes int64
}

// unlimited is the working memory with an unlimited budget, in bytes.
const unlimited = 64 << 20

func (o Options) workingMemory() int64 {
	switch limit := o.Budget.Limit(); {
	case o.WorkingMemory > 0:
		return o.WorkingMemory
	case limit > 0:
		return max(limit/int64(max(4, 2*o.Budget.Streams())), 1)
	default:
		return unlimited
	}
}

func (o Options) allocator() memory.Allocator {
	if o.Memory == nil {
		return batch.Default()
	}
	return o.Memory
}

// Bounds of the number of slices.
const (
	minSlices   = 2
	usualSlices = 32 // if the size of the rows is unknown
	maxSlices   = 256
	// sliceShare is the reciprocal of the share of working memory for the rows of a slice. The rest
	// is for copying a column and for an index.
	sliceShare = 3
)

// slices returns the number of slices.
func (o Options) slices() int {
	if o.ExpectedBytes <= 0 {
		return usualSlices
	}
	return int(min(max(o.ExpectedBytes/max(o.workingMemory()/sliceShare, 1)+1, minSlices), maxSlices))
}

// storedBatch is a batch in a store.
type storedBatch struct {
	number int
	from   int64 // number of rows before it in the list
	rows   int64 // at least one
	bytes  int64 // memory that it takes when it is read
}

// batchList is a list of batches in a store.
type batchList struct {
	batches portion
	rows    int64
	bytes   int64 // memory that all batches together take when they are read
}

// append writes a batch to the store, and adds it to the list.
func (l *batchList) append(store Store, b arrow.RecordBatch) error {
	number, err := store.Append(b)
	if fault.KindOf(err) == fault.Exhausted {
		return diskFullError{err}
	}
	if err != nil {
		return err
	}
	x := storedBatch{number: number, from: l.rows, rows: b.NumRows(), bytes: store.Size(number)}
	l.batches = append(l.batches, x)
	l.rows += x.rows
	l.bytes += x.bytes
	return nil
}

// portion is a range of a list's batches. Its rows are counted from its first row.
type portion []storedBatch

func (p portion) rows() (sum int64) {
	for _, x := range p {
		sum += x.rows
	}
	return sum
}

func (p portion) bytes() (sum int64) {
	for _, x := range p {
		sum += x.bytes
	}
	return sum
}

// upTo returns the longest prefix of the batches whose total size is at most limit, but at least
// one batch.
func (p portion) upTo(limit int64, size func(storedBatch) int64) portion {
	sum := int64(0)
	for i, x := range p {
		if sum += size(x); sum > limit && i > 0 {
			return p[:i]
		}
	}
	return p
}

// find returns the batch that holds a row of the portion, and the row's position in it.
func (p portion) find(row int64) (i, rowOfBatch int) {
	row += p[0].from
	i = sort.Search(len(p), func(i int) bool { return p[i].from > row }) - 1
	return i, int(row - p[i].from)
}
