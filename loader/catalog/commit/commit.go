// Package commit describes changes of Iceberg tables as plain values: data files to add and
// remove, columns to add, tables to create, refs to move. It checks what can be checked
// without the table. It knows no catalog, no storage and no format library.
//
// A Committer makes a change completely, and not twice if it has a token, whatever happens
// in between: other commits, answers that are lost, a death of the process.
package commit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/loader/catalog"
)

// Committer commits to the tables of one catalog. It is safe for concurrent use, by any
// number of processes. Every method but State returns Forbidden, before anything is written,
// if the catalog's configuration does not allow writes to the table's namespace.
//
// Errors: Conflict if others changed the table so that the change no longer fits, or did not
// stop committing; Expired if the change's token is too old, or the table was dropped;
// NotFound for an unknown table; Invalid for a change that contradicts itself or the table;
// Unavailable if the catalog or its storage refuses or does not answer. After an error for
// which Uncertain is true, the change may have been made, or may still be made: its files
// must be kept, and the call may be repeated with the same token.
type Committer interface {
	// State returns the state of a table that a change begins with. It writes nothing.
	State(ctx context.Context, table, branch string) (*TableState, error)
	// Commit makes a change. If the branch already has a snapshot with the change's token, it
	// returns that snapshot and commits nothing.
	Commit(ctx context.Context, change Change) (Committed, error)
	// MayCreate returns the error of Create for a definition or a location that the catalog does not accept. It writes nothing.
	// If the table may be created by a change (Change.Creates), it returns the folder that the table will have; "" if the
	// catalog chooses the folder, so that Create comes before the files.
	MayCreate(table NewTable) (folder string, err error)
	// Create creates a table without snapshots. If the table exists, it returns Conflict.
	Create(ctx context.Context, table NewTable) error
}

// Brancher moves the branches of the tables of one catalog. What is said of a Committer holds
// for it too.
type Brancher interface {
	// Move moves, creates or removes a branch.
	Move(ctx context.Context, move Move) error
	// Publish moves main to the snapshot of a branch, if main's snapshot is an ancestor of it,
	// and returns the move. Otherwise it returns Conflict, with the snapshots of main that the
	// branch does not have.
	Publish(ctx context.Context, table, branch string) (Move, error)
	// Undo takes a move of a branch back. If the branch has later snapshots, it returns
	// Conflict, and names them; so it does if the move cannot have been made, since To does not
	// come from From. A branch that had no snapshot before has none afterwards.
	Undo(ctx context.Context, made Move) error
}

// Main is the branch that tables are read from by default.
const Main = "main"

// TableState is the state of a table that a change begins with.
type TableState struct {
	// Table is the table at the branch's current snapshot, with the current schema. Its Pin
	// has the table's uuid and the snapshot, which is Base of a replacement.
	Table *catalog.Table
	// Version is the format version: 1, 2 or 3.
	Version int
	// Spec and SortOrder are the ids of the table's current partition spec and sort order.
	Spec, SortOrder int
	// Schemas are all schemas of the table; Current is the id of the current one. Others may be
	// older ones, or added by AddSchema for later.
	Schemas []TableSchema
	Current int
	// LastColumn is the highest field id that the table has used. New columns have larger ones.
	LastColumn int
	// UUIDs are the ids of all fields of type uuid, which have the Arrow type of fixed[16].
	UUIDs []int
	// WriteDefaults are the ids of columns that have a value in new rows that do not give them one.
	WriteDefaults []int
	Properties    map[string]string
}

// DataFolder returns the folder of the table's data files, without a slash at its end.
func (s *TableState) DataFolder() string {
	if folder := strings.TrimRight(s.Properties["write.data.path"], "/"); folder != "" {
		return folder
	}
	return s.Folder() + "/data"
}

// Folder returns the table's folder, without a slash at its end.
func (s *TableState) Folder() string { return strings.TrimRight(s.Table.Location, "/") }

// FoldersElsewhere returns the folders outside of the table's that its properties name for files.
func (s *TableState) FoldersElsewhere() (out []string) {
	for _, property := range []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"} {
		if folder := s.Properties[property]; folder != "" && !strings.HasPrefix(folder+"/", s.Folder()+"/") && !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	return out
}

// Base returns the snapshot that a change of this state is derived from, as Change has it: 0 for none.
func (s *TableState) Base() int64 {
	if !s.Table.HasSnapshot() {
		return 0
	}
	return s.Table.Pin.Snapshot
}

// Mode says what a change does to existing rows.
type Mode int

// The modes.
const (
	// Append adds files and removes none.
	Append Mode = iota
	// Overwrite removes files and adds files with other rows.
	Overwrite
	// Rewrite removes files and adds files with the same rows: a compaction, or rows with
	// additional columns. The number of rows must be the same, less those that DroppedRows
	// says were deleted before.
	Rewrite
)

// String returns the operation in a snapshot's summary.
func (m Mode) String() string {
	switch m {
	case Append:
		return "append"
	case Overwrite:
		return "overwrite"
	case Rewrite:
		return "replace"
	}
	return "unknown"
}

// Change is a change of one branch of a table, which becomes one snapshot. It must not be
// modified while it is committed.
type Change struct {
	Table string
	UUID  string // of the table; another table of the same name is not changed
	// Creates is the table, if the change creates it with its first snapshot: other programs see the table with its rows, or
	// not at all. If the table exists, and does not have the change, it returns Conflict. nil: the table exists. See MayCreate.
	Creates *NewTable
	Branch  string // "" is Main; the branch must exist, except Main of an empty table, and unless Begin is given
	// Begin is the snapshot that another branch than Main begins at if it does not exist: the change creates the branch, with
	// its new snapshot. 0 is none.
	Begin int64
	// Token names the change: any text; see NewToken. A call without a token that is repeated makes its
	// change twice.
	Token string
	// Fresh says that the token was made for this call, so that no earlier one made the change: it is not too old.
	Fresh bool
	// Rows identify the rows that the change adds, so that a change without a name of its own is found too.
	Rows AddedRows
	Mode Mode
	// Add are the new data files. They exist, completely, and belong to the table afterwards.
	Add []DataFile
	// Remove are the locations of the files to remove, as the table has them. All must be in
	// the branch when the change is committed.
	Remove []string
	// DroppedRows is the number of rows of the removed files that a Rewrite left out of the
	// added ones, since they had been deleted. Unless it is that, the change is refused.
	DroppedRows int64
	// AddDeletes are new position deletes and deletion vectors, each of one data file (Data),
	// which is in Add. They have neither Columns nor equality. A Sequence of 0 is that of the
	// new snapshot, which is right unless the caller knows better. Format version 1 has none,
	// version 3 takes deletion vectors only.
	AddDeletes []catalog.DeleteFile
	// RemoveDeletes are the locations of delete files to remove, which must be in the branch
	// and apply to no file that stays. Of position deletes that are not of one data file, only
	// the caller knows which files they name. Deletion vectors of removed files are removed
	// without being named.
	RemoveDeletes []string
	// Base is the snapshot that the new files were derived from, if files are removed. If
	// deletes were committed after it that apply to removed files, the change is refused.
	Base int64
	// Unmoved refuses the change with Conflict if the branch is no longer at Base (0: no snapshot), whatever was committed
	// since. Without it, rows that others appended stay.
	Unmoved bool
	// Columns are added to the table's schema, along with the files.
	Columns []NewColumn
	// Summary has further entries for the summary of the snapshot.
	Summary map[string]string
}

// AddedRows identify the rows that a change adds.
type AddedRows struct {
	// Digest is the digest of the rows and of how they are written, which the snapshot's summary keeps; "" is unknown.
	Digest string
	// Once says that the change is not made if an earlier change added these rows and the branch still has them. That
	// snapshot is then the result, as if it had the change's token.
	Once bool
	// Replaces says that the rows replace those of their partitions. The branch then has them only if no later snapshot added
	// or removed rows.
	Replaces bool
}

// DataFile is a Parquet file with rows of a table, as its manifest describes it. Maps are by
// field id. Bounds are in Iceberg's single-value serialization.
type DataFile struct {
	Location string
	Spec     int // id of the partition spec
	// Partition has a value for each field of that spec, without void ones, in order and with
	// the types that catalog.File has.
	Partition []any
	Rows      int64
	Bytes     int64 // of the file
	SortOrder int   // id of the order that the rows are in; 0 is none
	Splits    []int64
	ColumnMetrics
	// Sequence is the data sequence number of a rewritten file, whose rows keep the age that
	// they had; 0 is that of the new snapshot.
	Sequence int64
	// Snapshot is the snapshot that added the rows of a rewritten file without a sequence number
	// (catalog.File.Snapshot): the file has none either, and its rows keep their age. 0: the rows
	// have Sequence.
	Snapshot int64
	// FirstRow is the first row id of a rewritten file (format version 3); nil assigns new
	// row ids.
	FirstRow *int64
}

// ColumnMetrics are statistics of a data file, by field id. Absent entries are unknown.
type ColumnMetrics struct {
	ColumnBytes  map[int]int64 // as stored
	Values       map[int]int64 // number of values, with nulls
	Nulls        map[int]int64
	NaNs         map[int]int64
	Lower, Upper map[int][]byte
}

// Committed is a committed change.
type Committed struct {
	Snapshot int64
	// Parent is the snapshot before, or 0.
	Parent int64
	// Existed is true if an earlier call committed the change. Token is then the token of its snapshot.
	Existed bool
	Token   string
	// Began is true if this call created the branch, as far as it is known.
	Began bool
	// Tries is the number of attempts that this call made.
	Tries int
	// Time is the snapshot's.
	Time time.Time
}
