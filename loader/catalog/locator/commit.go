package locator

import (
	"context"
	"time"
)

// Swapper is a Locator of a catalog that only records the location of a table's metadata
// file. To commit, write another metadata file and call Swap.
type Swapper interface {
	Locator
	// Swap replaces the recorded location from by to, if it is still from.
	Swap(ctx context.Context, table Table, from, to string) (Outcome, error)
}

// Committer is a Locator of a catalog that writes metadata itself. A commit sends it the
// changes.
type Committer interface {
	Locator
	// SetTag sets a tag of a table, on the conditions in it.
	SetTag(ctx context.Context, table Table, tag Tag) (Outcome, error)
}

// Tag is a name of a snapshot, which keeps the snapshot from expiring.
type Tag struct {
	UUID     string // of the table; another table is not changed
	Name     string
	Snapshot int64
	// There requires the tag to exist, at that snapshot; false requires it not to exist.
	There bool
	// MaxAge is the age of the snapshot from which on expiring snapshots removes the tag.
	MaxAge time.Duration
}

// Outcome is the outcome of a commit.
type Outcome int

// The outcomes.
const (
	// Unknown: it may have been made; an error says why. Loading the table again tells.
	Unknown Outcome = iota
	Committed
	// Lost: another commit came first. It was not made, and there is no error.
	Lost
	// Refused: it was not made, and cannot be until the cause in the error is fixed.
	Refused
)
