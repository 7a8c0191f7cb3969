package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Probeable is what training rows probe: a [BuildSide], whose rows lie in
// memory, or staging rows that lie elsewhere.
type Probeable interface {
	// Release gives a reference back.
	Release()
	// Shape says what the join checks before it probes.
	Shape() Shape
	// NewMatcher begins one join. The matcher lives no longer than the
	// reference that the join holds, and ctx ends with the join.
	NewMatcher(ctx context.Context, rule Rule) (Matcher, error)
}

// Shape is what staging rows are: the dictionary column that they become, their
// keys and times, and whether they have defaults. Only Build makes one.
type Shape struct {
	field    arrow.Field   // the dictionary column, under the name it was built with
	keys     []arrow.Field // the key columns, and how they are read
	types    []keyType
	time     *arrow.Field // the time column, if there is one
	defaults bool         // whether row 0 holds a default
	arrival  Arrival      // nil if the order in which rows were written is known
}

// Matcher finds the staging rows of one join's training batches, which come in
// the training stream's order, each once. One goroutine uses it.
type Matcher interface {
	// Match finds the staging rows of a batch's rows. It writes to refs, which
	// has an entry for each row: the reference of the row that the rule chooses,
	// or 0; of several where all are wanted, of the first. The matches and refs
	// are valid until the next call of Match: the matcher may look at refs
	// until then, and the join does not change it.
	Match(keys *Keys, refs []int32) (Matches, error)
	// Expand writes the references of rows of the result: of row rows[i] of the
	// batch last matched, its staging row number nth[i], below its count (or 0
	// where it has none). rows ascend, with repeats. The dictionary that the
	// references refer to is valid until the next call of Expand or Match. Only
	// rules that multiply expand.
	Expand(rows, nth, refs []int32) (*array.Struct, error)
	// Files names the files of two of the several staging rows of a row of the
	// batch last matched.
	Files(row int) (one, other string)
	// Close ends the join.
	Close()
}

// Matches is what a batch's references refer to.
type Matches struct {
	// Dictionary may differ from batch to batch, but not in its type, nor in
	// row 0.
	Dictionary *array.Struct
	// Counts holds by row how many staging rows match it, where they are
	// several; other entries are 0. It is nil if there are no such rows. It is
	// negative where the rule cannot choose one, see BuildSpec.Arrival.
	Counts []int32
}
