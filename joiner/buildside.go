package joiner

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
)

// BuildSide holds the rows of a build side in memory, searchable by key. It is immutable,
// and any number of joins can use it at once. It is reference counted: the last Release
// frees rows, index and reservation. Batches that a consumer retains keep the rows in
// memory, but not the reservation, so a consumer that retains batches must also keep the
// build side (or the reader).
type BuildSide struct {
	refs       atomic.Int64
	schema     Schema
	rows       int64
	dictionary *array.Struct
	index      keyIndex
	groups     groups
	doubts     *doubts // nil if a rule can always choose
	times      []int64 // by row; nil if the build side has no time
	file       func(row int64) string
	held       *budget.Reservation
}

// keyIndex is a strategy's index of the keys of a build side, for all joins.
type keyIndex interface {
	// newSearch returns the search of one join.
	newSearch() search
	// strategy returns the name of the strategy in use.
	strategy() string
	// release frees what the build side's reservation does not cover.
	release()
}

// search finds staging rows for one join. It writes the reference of the first row of
// each key, in the stream's order, or 0; for null keys the result is undefined.
type search interface {
	lookup(ctx context.Context, keys *Keys, refs []int32) error
}

// Retain adds a reference. The caller holds one already.
func (s *BuildSide) Retain() {
	refs := s.refs.Add(1)
	invariant.Check(refs > 1, "Retain of a build side after its last Release")
}

// Release removes a reference. It is safe for concurrent use.
func (s *BuildSide) Release() {
	refs := s.refs.Add(-1)
	invariant.Check(refs >= 0, "more Releases of a build side than references")
	if refs == 0 {
		s.dictionary.Release()
		s.index.release()
		s.dictionary, s.index, s.groups, s.times = nil, nil, groups{}, nil
		s.held.Release()
	}
}

// Rows returns the number of staging rows, without row 0 of the dictionary.
func (s *BuildSide) Rows() int64 { return s.rows }

// Bytes returns the bytes that are reserved for rows, keys and index.
func (s *BuildSide) Bytes() int64 { return s.held.Held() }

// Strategy returns the name of the strategy in use: index, merge, zip or custom. With
// auto it may change while joins use the build side.
func (s *BuildSide) Strategy() string { return s.index.strategy() }

// Schema implements Probeable.
func (s *BuildSide) Schema() Schema { return s.schema }

// Dictionary returns the rows to which references refer; row 0 has the values of training rows
// without a match. It is valid while the caller holds a reference to the build side.
func (s *BuildSide) Dictionary() *array.Struct { return s.dictionary }

// Time returns the time of a staging row, counted from 0, in the unit of its column. The
// build side must have times, and the row one.
func (s *BuildSide) Time(row int32) int64 { return s.times[row] }

// NewMatcher implements Probeable.
func (s *BuildSide) NewMatcher(_ context.Context, rule Rule) (Matcher, error) {
	return s.NewRowMatcher(rule), nil
}

// NewRowMatcher is NewMatcher for a caller that needs the staging rows.
func (s *BuildSide) NewRowMatcher(rule Rule) *RowMatcher {
	return &RowMatcher{built: s, rule: rule, search: s.index.newSearch()}
}
