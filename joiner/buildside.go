package joiner

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
)

// BuildSide holds the rows of a build side in memory, ready to be searched by
// key. Its rows never change, and any number of joins may use it at once. It
// is counted by reference: the last Release frees rows and index and gives the
// reservation back. Batches that somebody retained keep the rows, but no
// reservation for them, so whoever retains batches keeps the build side (or the
// reader) as long.
type BuildSide struct {
	refs       atomic.Int64
	shape      Shape
	rows       int64
	dictionary *array.Struct
	index      keyIndex
	groups     groups
	doubts     *doubts // nil if a rule can always choose
	times      []int64 // by row; nil if the build side has no time
	file       func(row int64) string
	held       *budget.Reservation
}

// keyIndex is what a strategy made of the keys of a build side, for all its
// joins.
type keyIndex interface {
	// newSearch begins one join.
	newSearch() search
	// strategy names the strategy that runs.
	strategy() string
	// release frees what is held beside the build side's reservation.
	release()
}

// search finds staging rows for one join. It writes the reference of the first
// row of each key, in the stream's order, or 0; for null keys anything.
type search interface {
	lookup(ctx context.Context, keys *Keys, refs []int32) error
}

// Retain adds a reference. The caller holds one already.
func (s *BuildSide) Retain() {
	refs := s.refs.Add(1)
	invariant.Check(refs > 1, "Retain of a build side after its last Release")
}

// Release gives a reference back. It may be called from any goroutine.
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

// Rows returns how many staging rows were read; row 0 of the dictionary is not
// one.
func (s *BuildSide) Rows() int64 { return s.rows }

// Bytes returns how much the build side reserves now: its rows, keys and index.
func (s *BuildSide) Bytes() int64 { return s.held.Held() }

// Strategy names the strategy that runs: index, merge, zip or custom. Of a
// build side that chooses itself it may change while joins use it.
func (s *BuildSide) Strategy() string { return s.index.strategy() }

// Shape says what a join checks before it probes.
func (s *BuildSide) Shape() Shape { return s.shape }

// Dictionary returns the rows that references refer to, row 0 being what a
// training row without a match gets. It is valid while the caller holds a
// reference to the build side.
func (s *BuildSide) Dictionary() *array.Struct { return s.dictionary }

// Time returns the time of a staging row, counted from 0, in the unit of its
// column. The build side has times, and the row has one.
func (s *BuildSide) Time(row int32) int64 { return s.times[row] }

// NewMatcher begins one join, as a Probeable does.
func (s *BuildSide) NewMatcher(ctx context.Context, rule Rule) (Matcher, error) {
	return s.NewRowMatcher(ctx, rule), nil
}

// NewRowMatcher is NewMatcher for a caller that wants to know the staging rows.
func (s *BuildSide) NewRowMatcher(ctx context.Context, rule Rule) *RowMatcher {
	return &RowMatcher{ctx: ctx, built: s, rule: rule, search: s.index.newSearch()}
}
