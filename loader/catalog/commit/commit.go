// Package commit describes changes of Iceberg tables as plain values: data files to add and
// remove, columns to add, tables to create, refs to move. It checks what can be checked
// without the table. It knows no catalog, no storage and no format library.
//
// A Committer makes a change completely or not at all. If the change has a token, it is not made
// twice. Both hold whatever happens during the call: other commits, lost responses, the end of the
// process.
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
// Errors: Conflict if other writers changed the table so that the change no longer fits, or if they
// kept committing during all attempts; Expired if the change's token is too old, or if another
// table has the name now; NotFound for an unknown table; Invalid for a change that contradicts
// itself or the table; Unavailable if the catalog or its storage refuses a request or does not
// answer. After an error for which Uncertain is true, the change may have been made, or may still
// be made: the caller must keep the change's files, and may repeat the call with the same token.
type Committer interface {
	// State returns the state of a table, from which a caller derives a change. It writes nothing.
	State(ctx context.Context, table, branch string) (*TableState, error)
	// Commit makes a change. If the branch already has a snapshot with the change's token, it
	// returns that snapshot and commits nothing.
	Commit(ctx context.Context, change Change) (Committed, error)
	// MayCreate returns an error, which is that of Create, if the catalog does not accept the
	// table's definition or location. It writes nothing. It returns the folder that the table will
	// have if a change can create the table (see Change.Creates). It returns "" if the catalog
	// chooses the folder: the caller must then call Create before it writes files.
	MayCreate(table NewTable) (folder string, err error)
	// Create creates a table without snapshots. If the table exists, it returns Conflict.
	Create(ctx context.Context, table NewTable) error
}

// Brancher moves the branches of the tables of one catalog. The comment of Committer also applies
// to it.
type Brancher interface {
	// Move moves, creates or removes a branch.
	Move(ctx context.Context, move Move) error
	// Publish moves main to the snapshot of a branch and returns this move, if main's snapshot is
	// the branch's snapshot or an ancestor of it. Otherwise it returns Conflict, with the snapshots
	// of main that the branch does not have.
	Publish(ctx context.Context, table, branch string) (Move, error)
	// Undo moves a branch back to where it was before the given move. If the branch has later
	// snapshots, Undo returns Conflict and names them. It also returns Conflict if the move cannot
	// have happened, because To does not descend from From. If the branch did not exist before the
	// move, Undo removes it; main then has no snapshot.
	Undo(ctx context.Context, made Move) error
	// DropNew drops a table that Penstock created, if main is at the snapshot and no other program has
	// committed, and returns the folder of its files. It removes no data file. Otherwise it returns
	// Conflict: see history.Table.MayDrop.
	DropNew(ctx context.Context, table string, snapshot int64) (folder string, err error)
}

// Main is the branch that tables are read from by default.
const Main = "main"

// TableState is the state of a table from which a change is derived.
type TableState struct {
	// Table is the table at the branch's current snapshot, with the current schema. Its Pin has the
	// table's uuid and the snapshot. A change that removes files has this snapshot as its Base.
	Table *catalog.Table
	// Version is the format version: 1, 2 or 3.
	Version int
	// Spec and SortOrder are the ids of the table's current partition spec and sort order.
	Spec, SortOrder int
	// Schemas are all schemas of the table, and Current is the id of the current schema. The other
	// schemas are older, or AddSchema added them for later use.
	Schemas []TableSchema
	Current int
	// LastColumn is the highest field id that the table has ever used. New columns have larger ids.
	LastColumn int
	// UUIDs are the ids of all fields of type uuid. Their Arrow type does not tell: it is that of
	// fixed[16].
	UUIDs []int
	// WriteDefaults are the ids of the columns with a write default: the value that a new row gets
	// if its writer gives it none.
	WriteDefaults []int
	// Identifier are the ids of the columns that identify a row of the table, if the current schema has them.
	Identifier []int
	Properties map[string]string
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

// FoldersElsewhere returns the folders that the table's properties name for its files and that are
// outside the table's folder.
func (s *TableState) FoldersElsewhere() (out []string) {
	for _, property := range []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"} {
		if folder := s.Properties[property]; folder != "" && !strings.HasPrefix(folder+"/", s.Folder()+"/") && !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	return out
}

// Base returns the value of Change.Base for a change that is derived from this state: the id of the
// snapshot, or 0 if there is none.
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
	// Overwrite removes files and adds files with different rows.
	Overwrite
	// Rewrite removes files and adds files with the same rows, such as for a compaction or to give
	// the rows additional columns. The added files must have as many rows as the removed files,
	// less DroppedRows.
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
	// Creates is the table to create, if the change creates the table together with its first
	// snapshot: other programs then see the table with its rows, or not at all. If the table
	// already exists and does not have the change, Commit returns Conflict. Creates is nil for a
	// change of an existing table. See MayCreate.
	Creates *NewTable
	Branch  string // "" is Main; another branch must exist, unless Begin is set
	// Begin is for a branch other than Main. If it is not 0 and the branch does not exist, the
	// change creates the branch, and Begin is the parent of its new snapshot.
	Begin int64
	// Token identifies the change. It may be any text; see NewToken. If a call without a token is
	// repeated, the change is made twice.
	Token string
	// Fresh is true if the caller made the token for this call, so that no earlier call can have
	// made the change. The token is then never too old.
	Fresh bool
	// Rows identifies the rows that the change adds. With it, Commit can find out whether an
	// earlier call already added them, even if that call had another token.
	Rows AddedRows
	Mode Mode
	// Add has the new data files. They already exist and are complete. After the change, they
	// belong to the table.
	Add []DataFile
	// Remove has the locations of the data files to remove, exactly as they are in the table's
	// manifests. All of these files must be in the branch when the change is committed.
	Remove []string
	// DroppedRows is for a Rewrite. It is the number of rows of the removed files that are not in
	// the added files, because delete files had deleted them. The change is refused if the numbers
	// of rows do not match.
	DroppedRows int64
	// AddDeletes has new files of position deletes and new deletion vectors, but no equality
	// deletes, so Columns is empty. Each applies to one data file (Data), which must be in Add. If
	// Sequence is 0, the sequence number is that of the new snapshot, which is usually right.
	// Tables of format version 1 have no deletes; in version 3, only deletion vectors can be added.
	AddDeletes []catalog.DeleteFile
	// RemoveDeletes has the locations of the delete files to remove. They must be in the branch and
	// must not apply to any data file that stays. Commit does not check the latter for position
	// deletes that may name several data files, because only their content shows which files they
	// name. The deletion vectors of removed data files are removed too; they need not be in
	// RemoveDeletes.
	RemoveDeletes []string
	// Base is the snapshot that the new files were derived from, if the change removes files. The
	// change is refused if deletes that apply to removed files were committed after Base.
	Base int64
	// If Unmoved is true, the change is refused with Conflict if the branch is no longer at Base
	// (0: no snapshot), whatever was committed since. If it is false, the change may be made on top
	// of later commits, and rows that others appended stay.
	Unmoved bool
	// Columns has the columns that the change adds to the table's schema, in the same commit as the
	// files.
	Columns []NewColumn
	// Summary has additional entries for the summary of the snapshot.
	Summary map[string]string
}

// AddedRows identifies the rows that a change adds.
type AddedRows struct {
	// Digest is a digest of the rows and of the way in which they are written; "" if it is unknown.
	// It is kept in the snapshot's summary.
	Digest string
	// If Once is true, the change is not made if an earlier change added these rows and the branch
	// still has them. Commit then returns the snapshot of the earlier change, as if it had the
	// change's token.
	Once bool
	// Replaces is true if the change replaces the rows of whole partitions with these rows. After
	// such a change, Commit considers the rows to be in the branch only if no later snapshot added
	// or removed any rows.
	Replaces bool
}

// DataFile is a Parquet file with rows of a table, as its manifest describes it. Maps are by
// field id. Bounds are in Iceberg's single-value serialization.
type DataFile struct {
	Location string
	Spec     int // id of the partition spec
	// Partition has a value for each field of the partition spec except void fields, in order. The
	// values have the types that catalog.File.Partition documents.
	Partition []any
	Rows      int64
	Bytes     int64 // of the file
	SortOrder int   // id of the order that the rows are in; 0 is none
	Splits    []int64
	ColumnMetrics
	// Sequence is the data sequence number for a file with rewritten rows, which keep their age. If
	// it is 0, the sequence number is that of the new snapshot.
	Sequence int64
	// Snapshot is for a file whose rows come from a file without a sequence number: it is the
	// snapshot that added that file (catalog.File.Snapshot). The new file then has no sequence
	// number either, and its rows keep their age. If Snapshot is 0, Sequence applies.
	Snapshot int64
	// FirstRow is the row id of the first row, if rewritten rows keep their row ids (format version
	// 3). If it is nil, the rows get new row ids.
	FirstRow *int64
}

// ColumnMetrics has statistics of the columns of a data file, by field id. If a column has no
// entry, its value is unknown.
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
	// Parent is the parent of Snapshot, or 0 if it has none.
	Parent int64
	// Existed is true if an earlier call committed the change. Token is then the token in the
	// summary of its snapshot.
	Existed bool
	Token   string
	// Began is true if this call is known to have created the branch.
	Began bool
	// Tries is the number of attempts that this call made.
	Tries int
	// Time is the time of the snapshot.
	Time time.Time
}
