package stage

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
)

// WritableTables is a catalog whose tables a Stager writes to. It is safe for concurrent use.
type WritableTables interface {
	commit.Committer
	commit.Brancher
	// Made returns the commit that made a change, or false if there is none. Only the Table, Branch, Token, Fresh and Rows of the
	// change are used. It returns the same errors as Commit.
	Made(ctx context.Context, change commit.Change) (commit.Committed, bool, error)
	// Files lists the data files of a pinned table. See catalog.Catalog.
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
	// FileStore returns a store that writes and removes data files of a table below a folder.
	FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error)
}

// CallOptions are the options that the server adds to a request.
type CallOptions struct {
	// OnlyKeys returns the keys of the request's OnlyKeysOf. Its argument has the key's columns. It
	// is called once, before the first row is read. Rows with other keys, or with a null in the
	// key, are dropped. If OnlyKeys is nil, no row is dropped.
	OnlyKeys func(ctx context.Context, key []arrow.Field) (KeptKeys, error)
	// Readers describe how datasets read the table. Rows that would make one of them fail are
	// refused.
	Readers []DatasetReader
	// CheckAdded returns an error if a dataset cannot be read after columns are added to the table,
	// whose current state is to. It is called before the first row is read; it may be nil.
	CheckAdded func(ctx context.Context, to *catalog.Table, added []catalog.Field) error
	// Progress is called from time to time; it may be nil.
	Progress func(datafile.Progress)
}

// KeptKeys are the keys of rows to keep. The caller of OnlyKeys releases them.
type KeptKeys interface {
	extsort.KeySet
	Release()
}

// WriteResult describes what a call did, or what a dry run would do.
type WriteResult struct {
	Token string `json:"token"`
	// Snapshot is the snapshot that has the rows; 0 for a dry run or without rows.
	Snapshot int64 `json:"snapshot,omitempty,string"`
	// Parent is the snapshot before Snapshot; 0 if there is none.
	Parent int64 `json:"parent,omitempty,string"`
	// Existed is true if an earlier call made the change. Then the counts are 0, and Token is the token of that call.
	Existed bool `json:"existed,omitempty"`
	// Created is true if the table did not exist, Branched if the branch did not. A new branch
	// begins at Parent. If Existed is also true, main had the change, and the branch begins at
	// main's snapshot.
	Created  bool `json:"created,omitempty"`
	Branched bool `json:"branched,omitempty"`
	// Partition lists the partition fields of a new table. Taken lists the fields, except the
	// buckets, that are copied from the table in the request's Like.
	Partition []string `json:"partition,omitempty"`
	Taken     []string `json:"taken,omitempty"`
	// Added lists the columns that are added to the table.
	Added      []string `json:"added,omitempty"`
	Rows       int64    `json:"rows"`
	NullKeys   int64    `json:"null_keys"`
	Dropped    int64    `json:"dropped"` // rows whose key was not among the kept keys
	Partitions int      `json:"partitions"`
	Files      int      `json:"files"`
	Bytes      int64    `json:"bytes"`
	Removed    int      `json:"removed"` // files that were replaced
	// RemovedRows is the number of rows in the replaced files, including deleted rows.
	RemovedRows int64 `json:"removed_rows"`
	// KeysUnchecked is true if the rows were not searched for repeated keys, because no dataset
	// reads the table, and neither the request nor the table has a key.
	KeysUnchecked bool `json:"keys_unchecked,omitempty"`
	// BrokenRules are the entries of datasets whose rule duplicates: error the rows break, if the
	// call allows this.
	BrokenRules []BrokenRule `json:"-"`
	// Readers describes how datasets read the table after the change; nil if they were not checked.
	Readers []ReaderCheck `json:"readers,omitzero"`
}

// Options configure a Stager. Route, Read, Clock and Rows.Disk are required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (WritableTables, string, error)
	// Read reads columns of a table's files. The table in source has the name that users give it.
	Read  func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	Clock func() time.Time
	Rows  datafile.Options
}

// Stager stages rows. It is safe for concurrent use.
type Stager struct{ options Options }

// New makes a Stager.
func New(o Options) *Stager {
	o.Rows = o.Rows.Defaults()
	return &Stager{options: o}
}
