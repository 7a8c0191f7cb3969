package locator

import (
	"context"
	"encoding/json"
	"time"
)

// Swapper is a Locator of a catalog that only records the location of a table's metadata
// file. To commit, write another metadata file and call Swap.
type Swapper interface {
	Locator
	// Swap replaces the recorded location from by to, if it is still from.
	Swap(ctx context.Context, table Table, from, to string) (Outcome, error)
	// Insert records the location of a new table, if no table or view of that name exists.
	Insert(ctx context.Context, table Table, location string) (Outcome, error)
}

// Updater is a Locator of a catalog that writes metadata itself. A commit sends it the
// changes.
type Updater interface {
	Locator
	// SetTag sets a tag of a table, on the conditions in it.
	SetTag(ctx context.Context, table Table, tag Tag) (Outcome, error)
	// Update changes a table, on the conditions in the update. It may send the request more
	// than once, so an update that is Lost may be one that was made.
	Update(ctx context.Context, table Table, update Update) (Outcome, error)
	// Create creates a table without snapshots, from the request in the catalog's own form.
	Create(ctx context.Context, table Table, request []byte) (Outcome, error)
}

// Update is a change of a table, with its conditions, in the form of the REST catalog.
type Update struct {
	Requirements, Updates []json.RawMessage
	// Ref, unless it is "", is at Snapshot afterwards; 0: it does not exist.
	Ref      string
	Snapshot int64
	// Schema, unless it is nil, is the id of the current schema afterwards.
	Schema *int
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
