package spill

import (
	"errors"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// Store is a list of batches outside memory. Its methods may be called from
// several goroutines at once.
type Store interface {
	// Append writes a batch, which it only borrows, and returns its number. It is
	// Exhausted if there is no room for the batch, and for no other reason.
	Append(b arrow.RecordBatch) (int, error)
	// Read reads a batch. The caller releases it.
	Read(number int) (arrow.RecordBatch, error)
	// Size returns the bytes of memory that Read of the batch takes.
	Size(number int) int64
	// Bytes returns the bytes that were written.
	Bytes() int64
	// Release gives the space back.
	Release()
}

// ErrDiskFull is what the errors of rows are that a store had no room for, to
// tell them from rows that are Exhausted for want of memory: see errors.Is.
var ErrDiskFull = errors.New("no room on local disk")

// diskFullError is an error of a store that had no room.
type diskFullError struct{ error }

// Unwrap returns the store's error.
func (e diskFullError) Unwrap() error { return e.error }

// Is says whether the error is ErrDiskFull.
func (e diskFullError) Is(target error) bool { return target == ErrDiskFull }

// Options says what the joiner works with, where rows go that do not fit in
// memory, and how much memory is worked with meanwhile.
type Options struct {
	joiner.Options
	// Disk makes an empty store for what is named.
	Disk func(what string) (Store, error)
	// WorkingMemory is the memory to aim at, in bytes; 0 is a quarter of the
	// budget, less where more than two streams are open, or 64 MiB if that is
	// unlimited.
	WorkingMemory int64
	// ExpectedBytes is how much memory the rows are expected to take; 0 is
	// unknown. It decides how finely they are sliced, and nothing else.
	ExpectedBytes int64
}

// unlimited is the working memory where the budget says nothing, in bytes.
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
		return memory.DefaultAllocator
	}
	return o.Memory
}

// Bounds of the number of slices.
const (
	fewestSlices = 2
	usualSlices  = 32 // where nothing is known of the rows
	mostSlices   = 256
	// sliceShare is the part of the working memory that the rows of a slice
	// take: beside them lie a copy of a column, and an index.
	sliceShare = 3
)

// slices returns how many slices rows are written in.
func (o Options) slices() int {
	if o.ExpectedBytes <= 0 {
		return usualSlices
	}
	return int(min(max(o.ExpectedBytes/max(o.workingMemory()/sliceShare, 1)+1, fewestSlices), mostSlices))
}

// storedBatch is a batch in a store.
type storedBatch struct {
	number int
	from   int64 // rows of the list before it
	rows   int64 // at least one
	bytes  int64 // of memory, when it is read
}

// batchList is batches in a store, in order.
type batchList struct {
	batches portion
	rows    int64
	bytes   int64 // of memory, when all batches are read
}

// append writes a batch to the store, behind those of the list.
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

// portion is some neighbours of a list's batches, or all of them. Its rows are
// counted from its first row.
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

// upTo returns as many of the first batches as stay within a limit, at least
// one.
func (p portion) upTo(limit int64, size func(storedBatch) int64) portion {
	sum := int64(0)
	for i, x := range p {
		if sum += size(x); sum > limit && i > 0 {
			return p[:i]
		}
	}
	return p
}

// find returns which batch holds a row of the portion, and the row's number
// there.
func (p portion) find(row int64) (i, rowOfBatch int) {
	row += p[0].from
	i = sort.Search(len(p), func(i int) bool { return p[i].from > row }) - 1
	return i, int(row - p[i].from)
}
