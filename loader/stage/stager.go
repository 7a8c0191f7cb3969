package stage

import (
	"cmp"
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
)

// WritableTables is a catalog with tables that rows are staged to. It is safe for concurrent use.
type WritableTables interface {
	commit.Committer
	commit.Brancher
	// Made returns the snapshot of a branch that has the change of a token, or false. Errors
	// are those of Commit.
	Made(ctx context.Context, table, branch, token string) (commit.Committed, bool, error)
	PinnedTables
	// FileStore returns what writes and removes data files of a table below a folder.
	FileStore(ctx context.Context, table, folder string) (FileStore, error)
}

// PinnedTables opens tables at snapshots, and lists their data files.
type PinnedTables interface {
	// At opens a state of a table that was pinned before. See catalog.Catalog.
	At(ctx context.Context, table string, pin dataset.TablePin) (*catalog.Table, error)
	// Files lists the data files of a pinned table. See catalog.Catalog.
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
	// DataFiles returns the wanted data files of a pinned table as its manifests describe them, with all statistics.
	DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error)
}

// FileStore writes data files, and removes them.
type FileStore interface {
	store.Uploader
	// Remove removes a file if it exists.
	Remove(ctx context.Context, location string) error
}

// WriteMode is what becomes of the rows that a table has.
type WriteMode int

// The modes.
const (
	// Append adds rows.
	Append WriteMode = iota
	// Replace replaces the rows of each partition that has new rows. Partitions are those of
	// identity and time fields; of a table that has none, nothing is replaced.
	Replace
)

// String returns the mode as users write it.
func (m WriteMode) String() string {
	switch m {
	case Append:
		return "append"
	case Replace:
		return "replace"
	}
	return "unknown"
}

// TableWrite is what to do with rows.
type TableWrite struct {
	Table  string
	Branch string // "" is main; another branch that does not exist begins at main
	// Token names the change; see commit.NewToken. "" is a new one, which the result has.
	Token string
	Mode  WriteMode
	// Key has the names of the key's columns. Without them they are the columns of the table's
	// buckets.
	Key []string
	// Evolve adds columns that the table does not have, as optional ones.
	Evolve bool
	// DryRun reads and sorts the rows, and writes nothing to the table.
	DryRun bool
	// OnlyKeys returns the keys whose rows are kept: rows with other keys, or with a null in the key, are dropped.
	// It is given the key's columns, and is called once, before a row is read. If it is nil, no row is dropped.
	OnlyKeys func(ctx context.Context, key []arrow.Field) (KeptKeys, error)
	// Progress is called from time to time; it may be nil.
	Progress func(WriteProgress)

	// New is the layout of a table that does not exist; it has no effect on one that does.
	New NewLayout
}

// KeptKeys are the keys of rows to keep. The caller of OnlyKeys releases them.
type KeptKeys interface {
	extsort.KeySet
	Release()
}

// NewLayout is the layout of a table that is created.
type NewLayout struct {
	// Partition has the partition fields in front of the buckets: a column, or year, month, day or hour of one, as in
	// day(ts), or truncate[4](column).
	Partition []string
	// Buckets is the number of buckets of the key's first column. Like is a table whose bucket
	// count it takes instead; without a Partition also the fields of times and columns that the rows have.
	Buckets int
	Like    string
	// Sort has the columns to sort by, each with a trailing " desc" for descending; without
	// columns it is the key.
	Sort []string
}

// WriteStep is a step of a call.
type WriteStep int

// The steps, in order. A call without rows ends after the first, and so does a dry run.
const (
	// ReadRowsStep reads and sorts the rows.
	ReadRowsStep WriteStep = iota
	// WriteFilesStep writes data files.
	WriteFilesStep
	// CommitFilesStep commits them.
	CommitFilesStep
)

// String returns the name of the step.
func (s WriteStep) String() string {
	switch s {
	case ReadRowsStep:
		return "read"
	case WriteFilesStep:
		return "write"
	case CommitFilesStep:
		return "commit"
	}
	return "unknown"
}

// WriteProgress is how far a call is.
type WriteProgress struct {
	Step                  WriteStep
	RowsRead, RowsWritten int64
	Files                 int
	Bytes                 int64
}

// WriteResult is what a call did, or would have done.
type WriteResult struct {
	Token string `json:"token"`
	// Snapshot is the snapshot that has the rows; 0 for a dry run, and without rows.
	Snapshot int64 `json:"snapshot"`
	// Parent is the snapshot before, or 0.
	Parent int64 `json:"parent,omitempty"`
	// Existed is true if an earlier call made the change. Then the counts are 0.
	Existed bool `json:"existed,omitempty"`
	// Created is true if the table did not exist, Branched if the branch did not. A new branch begins at Parent, or at
	// main's snapshot if Existed is true, too: then main has the change.
	Created  bool `json:"created,omitempty"`
	Branched bool `json:"branched,omitempty"`
	// Partition has the partition fields of a new table; Taken are those of them, beside the buckets, that come from
	// the table that it is like.
	Partition []string `json:"partition,omitempty"`
	Taken     []string `json:"taken,omitempty"`
	// Added are the columns that the table did not have.
	Added      []string `json:"added,omitempty"`
	Rows       int64    `json:"rows"`
	NullKeys   int64    `json:"null_keys"`
	Dropped    int64    `json:"dropped"` // not in the set of keys
	Partitions int      `json:"partitions"`
	Files      int      `json:"files"`
	Bytes      int64    `json:"bytes"`
	Removed    int      `json:"removed"` // files that were replaced
}

// Options are what a Stager works with. Route, Disk and Clock are required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (WritableTables, string, error)
	// Disk returns an empty store for sorted rows; what is its name in errors.
	Disk func(what string) (extsort.RunStore, error)
	// Read reads columns of the files of a table, which has the name that users give it. It is needed to
	// rewrite files.
	Read func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	// Named returns the locations of the data files whose rows a file of position deletes names. It is needed to compact tables.
	Named func(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile) ([]string, error)
	// Files opens the files of such tables. It is needed to copy files.
	Files  catalog.Opener
	Clock  func() time.Time
	Budget *budget.Budget   // nil is unlimited
	Memory memory.Allocator // of rows; nil: the Go heap
	// Threads is the number of goroutines of one call; 0 means 1.
	Threads int
	// Calls is the number of calls at the same time, each of which aims at as large a part of the budget; 0 means 1.
	Calls int
	// FileBytes is the size of files to aim at; 0 means 256 MiB.
	FileBytes int64
}

// defaultFileBytes is between 128 and 512 MiB, which suits readers.
const defaultFileBytes = 256 << 20

// Stager stages rows. It is safe for concurrent use.
type Stager struct{ options Options }

// New makes a Stager.
func New(o Options) *Stager {
	o.Threads, o.FileBytes, o.Calls = cmp.Or(o.Threads, 1), cmp.Or(o.FileBytes, defaultFileBytes), cmp.Or(o.Calls, 1)
	return &Stager{options: o}
}
