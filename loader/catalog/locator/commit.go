package locator

import (
	"context"
	"encoding/json"
	"time"
)

// Swapper is a Locator of a catalog that only records the location of each table's metadata file.
// To commit, a caller writes a new metadata file and then calls Swap.
type Swapper interface {
	Locator
	// Swap sets the recorded location of the table's metadata file to the location to, if the
	// recorded location is still from.
	Swap(ctx context.Context, table Table, from, to string) (Outcome, error)
	// Insert records the location of a new table, if no table or view of that name exists.
	Insert(ctx context.Context, table Table, location string) (Outcome, error)
	// Delete removes a table from the catalog, if the recorded location is still from. It removes no
	// file.
	Delete(ctx context.Context, table Table, from string) (Outcome, error)
}

// Dropper is an Updater that can remove a table from the catalog.
type Dropper interface {
	Updater
	// Drop removes a table from the catalog, whatever its state is. It removes no file. It sends the
	// request only once, since a second request could remove another table of the same name. If there
	// is no table, the outcome is Lost.
	Drop(ctx context.Context, table Table) (Outcome, error)
}

// Updater is a Locator of a catalog that writes metadata itself. To commit, a caller sends the
// changes to the catalog.
type Updater interface {
	Locator
	// SetTag sets a tag of a table, if the conditions in tag hold.
	SetTag(ctx context.Context, table Table, tag Tag) (Outcome, error)
	// Update changes a table, if the conditions in update hold. It may send the request more than
	// once. So even if the outcome is Lost, an earlier request of the same call may have made the
	// change.
	Update(ctx context.Context, table Table, update Update) (Outcome, error)
	// Create creates a table without snapshots. The request is the body that the catalog's protocol
	// defines.
	Create(ctx context.Context, table Table, request []byte) (Outcome, error)
}

// Update is a change of a table and the conditions under which it is made, as JSON values of the
// REST catalog's protocol.
type Update struct {
	Requirements, Updates []json.RawMessage
	// If Ref is not "", it names the branch that is at Snapshot after the change. If Snapshot is 0,
	// the branch does not exist after the change.
	Ref      string
	Snapshot int64
	// If Schema is not nil, it is the id of the current schema after the change.
	Schema *int
	// If Statistics is not "", it is the location of a statistics file that the table names after the change.
	Statistics string
}

// Tag is a name of a snapshot, which keeps the snapshot from expiring.
type Tag struct {
	UUID     string // of the table; another table is not changed
	Name     string
	Snapshot int64
	// If There is true, the tag must already exist and be at Snapshot; if it is false, the tag must
	// not exist.
	There bool
	// MaxAge is the age of the snapshot at which a job that expires snapshots removes the tag.
	MaxAge time.Duration
}

// Outcome is the outcome of a commit.
type Outcome int

// The outcomes.
const (
	// Unknown: the change may have been made. An error says why this is unknown. To find out, load
	// the table again.
	Unknown Outcome = iota
	Committed
	// Lost: another commit came first, so the request changed nothing. There is no error. See
	// Updater.Update for requests that are sent more than once.
	Lost
	// Refused: the change was not made, and cannot be made until the cause that the error names is
	// fixed.
	Refused
)
