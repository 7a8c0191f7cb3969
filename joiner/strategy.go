package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// Strategy says how the keys of a staging side are searched. It changes
// neither the rows of the result nor their order.
type Strategy int

// The strategies.
const (
	// StrategyAuto is merge where the keys turn out sorted, else index; and
	// index after all where training keys turn out to jump.
	StrategyAuto Strategy = iota
	// StrategyIndex is a hash index over the staging side.
	StrategyIndex
	// StrategyMerge searches in sorted keys, from where the last search ended.
	// Keys that turn out not to be sorted are indexed.
	StrategyMerge
	// StrategyZip is merge that looks at the next staging row first.
	StrategyZip
)

// Custom is a strategy that somebody else brings: it says which staging row a
// key finds, equal or not. It meets no duplicates, since it gives at most one
// row, and knows no times.
type Custom interface {
	// Index gets the key columns of a staging side, once, when all rows were
	// read. They stay valid and unchanged while the finder lives. Memory that
	// the finder keeps beside them is reserved with grow first, in bytes.
	Index(ctx context.Context, keys []arrow.Array, grow func(bytes int64) error) (Finder, error)
}

// Finder finds the rows of one staging side. It is used by several goroutines
// at once.
type Finder interface {
	// Find gets the key columns of a training batch, and writes for each row
	// the number of its staging row, counted from 0, or -1 for none. Rows with
	// a null in their key match nothing, whatever is written for them.
	Find(ctx context.Context, keys []arrow.Array, found []int32) error
}
