package joiner

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
)

// Side is a staging side that was read whole and indexed by key. It never
// changes, and any number of joins may use it at once. It is counted by
// reference: the last Release frees rows and index and gives the reservation
// back. Batches that somebody retained keep the rows, but no reservation for
// them, so whoever retains batches keeps the side (or the reader) as long.
type Side struct {
	refs       atomic.Int64
	field      arrow.Field
	rows       int64
	bytes      int64
	keys       []arrow.Field
	types      []keyType
	dictionary *array.Struct
	index      index
	file       func(row int64) string
	held       *budget.Reservation
}

// Retain adds a reference. The caller holds one already.
func (s *Side) Retain() {
	refs := s.refs.Add(1)
	invariant.Check(refs > 1, "Retain of a side after its last Release")
}

// Release gives a reference back. It may be called from any goroutine.
func (s *Side) Release() {
	refs := s.refs.Add(-1)
	invariant.Check(refs >= 0, "more Releases of a side than references")
	if refs == 0 {
		s.dictionary.Release()
		s.dictionary, s.index = nil, index{}
		s.held.Release()
	}
}

// Rows returns how many staging rows were read; the null row is not one.
func (s *Side) Rows() int64 { return s.rows }

// Bytes returns how much the side reserves: its rows, keys and index.
func (s *Side) Bytes() int64 { return s.bytes }

// Field returns the dictionary column that joins get from this side, under the
// name it was built with.
func (s *Side) Field() arrow.Field { return s.field }
