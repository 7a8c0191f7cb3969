package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Probeable is a build side that a join can ask: a [BuildSide], whose rows lie in
// memory, or one whose rows lie elsewhere. Its methods are the package's own.
type Probeable interface {
	// Release gives a reference back.
	Release()
	// shape says what the side is made of.
	shape() shape
	// ask begins one join. The matcher lives no longer than the reference that
	// the join holds, and ctx ends with the join.
	ask(ctx context.Context, rule Rule) (matcher, error)
}

// shape is what a join checks before it asks a side.
type shape struct {
	field    arrow.Field   // the dictionary column, under the name the side was built with
	keys     []arrow.Field // the key columns, and how they are read
	types    []keyType
	time     *arrow.Field // the time column, if there is one
	defaults bool         // whether row 0 holds a default
}

// matcher answers one join about its training batches, which it is asked about
// in the training stream's order, each once. It is used by one goroutine.
type matcher interface {
	// match finds the staging rows of a batch's rows. It writes to refs, which
	// has an entry for each row, the reference of the row that the rule chooses,
	// or 0; of several where all are wanted, of the first. Both the answer and
	// refs are valid until the next call of match: the matcher may look at refs
	// until then, and the join does not change it.
	match(q *question, refs []int32) (answer, error)
	// expand writes the references of rows of the result: of row rows[i] of the
	// batch last asked about, its staging row number nth[i], below its count (or
	// 0 where it has none). rows ascend, with repeats. The dictionary that
	// the references refer to is valid until the next call of expand or match.
	// Only rules that multiply expand.
	expand(rows, nth, refs []int32) (*array.Struct, error)
	// files names the files of two of the several staging rows of a row of the
	// batch last asked about.
	files(row int) (one, other string)
	// close ends the join.
	close()
}

// question is one training batch as one probe sees it, valid until the next.
type question struct {
	record arrow.RecordBatch
	before int64         // training rows before this batch
	rows   int           // of the batch, at least one
	arrays []arrow.Array // the key columns
	keys   vector        // the same, encoded
	times  times         // the time column, of rules with a time
}

// answer is what a side has for a batch.
type answer struct {
	// dictionary is what references refer to. It may differ from answer to
	// answer, but not in its type, nor in row 0.
	dictionary *array.Struct
	// counts holds by row how many staging rows match it, where they are
	// several; other entries are 0. It is nil if there are no such rows.
	counts []int32
}
