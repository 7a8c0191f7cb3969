package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// Custom is a strategy that somebody else brings: it says which staging row a
// key finds, equal or not. It meets no duplicates, since it gives at most one
// row, and knows no times.
type Custom interface {
	// Index gets the key columns of a build side, once, when all rows were
	// read. They stay valid and unchanged while the finder lives. Memory that
	// the finder keeps beside them is reserved with grow first, in bytes.
	Index(ctx context.Context, keys []arrow.Array, grow func(bytes int64) error) (Finder, error)
}

// Finder finds the rows of one build side. It is used by several goroutines
// at once.
type Finder interface {
	// Find gets the key columns of a training batch, and writes for each row
	// the number of its staging row, counted from 0, or -1 for none. Rows with
	// a null in their key match nothing, whatever is written for them.
	Find(ctx context.Context, keys []arrow.Array, found []int32) error
}
