package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Probeable is probed by training rows: a [BuildSide], whose rows are in memory, or staging rows
// that are stored elsewhere.
type Probeable interface {
	// Release removes a reference.
	Release()
	// Schema returns the schema that the join checks before it probes.
	Schema() Schema
	// NewMatcher starts one join. The join holds its reference until it has
	// released the matcher.
	NewMatcher(ctx context.Context, rule Rule) (Matcher, error)
}

// Schema describes staging rows: their dictionary column, their keys and times, and
// whether they have defaults. Only Build makes one.
type Schema struct {
	field    arrow.Field   // the dictionary column, under the name it was built with
	keys     []arrow.Field // the key columns, and how they are read
	types    []keyType
	time     *arrow.Field // the time column, if there is one
	defaults bool         // whether row 0 holds a default
	arrival  Arrival      // nil if the order in which rows were written is known
}

// Matcher finds the staging rows of one join's training batches, each of which it gets
// once, in the training stream's order. It is not safe for concurrent use.
type Matcher interface {
	// Match finds the staging rows of a batch's rows. For each row it writes to refs the
	// reference of the staging row that the rule chooses, of the first one if the rule
	// multiplies, or 0. The matches and refs are valid until the next call of Match;
	// until then the matcher may read refs, and the join does not change them.
	Match(ctx context.Context, keys *Keys, refs []int32) (Matches, error)
	// Expand writes the references of rows of the result: row rows[i] of the last batch
	// with its match number nth[i], which is less than its count (0 if it has none).
	// rows ascend, with repeats. The dictionary of the references is valid until the
	// next call of Expand or Match. Expand is called only for rules that multiply.
	Expand(ctx context.Context, rows, nth, refs []int32) (*array.Struct, error)
	// Files returns the files of two of the several matches of a row of the last batch.
	Files(row int) (one, other string)
	// Release ends the join.
	Release()
}

// Matches describes the references of a batch.
type Matches struct {
	// Dictionary may differ from batch to batch, but not in its type nor in row 0.
	Dictionary *array.Struct
	// Counts holds by row the number of matching staging rows where there are several,
	// and 0 elsewhere. It is nil if no row has several. It is negative if the rule
	// cannot choose one, see BuildSpec.Arrival.
	Counts []int32
}
