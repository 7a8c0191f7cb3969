package locator

import (
	"context"
	"time"
)

// Swapper is a Locator of a catalog that knows of a table only where its metadata file is:
// who commits writes another file first.
type Swapper interface {
	Locator
	// Swap has the catalog name the file to in place of from, if it still names that.
	Swap(ctx context.Context, table Table, from, to string) (Outcome, error)
}

// Committer is a Locator of a catalog that writes metadata itself, and is told what is to
// change.
type Committer interface {
	Locator
	// SetTag sets a tag of a table, on the conditions that it names.
	SetTag(ctx context.Context, table Table, tag Tag) (Outcome, error)
}

// Tag is a name for a snapshot of a table, which keeps the snapshot from expiring.
type Tag struct {
	UUID     string // of the table: it must be that one
	Name     string
	Snapshot int64
	// There says whether the tag must be there already, at that snapshot; else it must not.
	There bool
	// MaxAge is how old the snapshot may become before whoever expires snapshots removes
	// the tag.
	MaxAge time.Duration
}

// Outcome is what became of a commit.
type Outcome int

// The outcomes.
const (
	// Unknown: nobody knows whether it was made; an error says why. Who looks again finds out.
	Unknown Outcome = iota
	Committed
	// Lost: what it was to change has changed meanwhile. It was not made, and there is no
	// error.
	Lost
	// Refused: it was not made, and will not be before somebody mends what the error says.
	Refused
)
