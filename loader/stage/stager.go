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

// WritableTables is a catalog with tables that rows are staged to. It is safe for concurrent use.
type WritableTables interface {
	commit.Committer
	commit.Brancher
	// Made returns the snapshot of a branch that has the change of a token, or false. Errors
	// are those of Commit.
	Made(ctx context.Context, table, branch, token string) (commit.Committed, bool, error)
	// Files lists the data files of a pinned table. See catalog.Catalog.
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
	// FileStore returns what writes and removes data files of a table below a folder.
	FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error)
}

// CallOptions are what the server adds to a request.
type CallOptions struct {
	// OnlyKeys returns the keys of the request's OnlyKeysOf: rows with other keys, or with a null in the key, are dropped.
	// It is given the key's columns, and is called once, before a row is read. If it is nil, no row is dropped.
	OnlyKeys func(ctx context.Context, key []arrow.Field) (KeptKeys, error)
	// Readers are the ways in which datasets read the table: rows that would break one of them are refused.
	Readers []DatasetReader
	// Progress is called from time to time; it may be nil.
	Progress func(datafile.Progress)
}

// KeptKeys are the keys of rows to keep. The caller of OnlyKeys releases them.
type KeptKeys interface {
	extsort.KeySet
	Release()
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
	// RemovedRows is the number of rows in the files that were replaced, with those that delete files remove.
	RemovedRows int64 `json:"removed_rows"`
}

// Options are what a Stager works with. Route, Read, Clock and the Disk of Rows are required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (WritableTables, string, error)
	// Read reads columns of the files of a table, which has the name that users give it.
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
