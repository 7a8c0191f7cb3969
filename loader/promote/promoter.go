package promote

import (
	"cmp"
	"context"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/deletes"
)

// PromotedTables is a catalog of training tables to which columns can be added. It is safe for
// concurrent use.
type PromotedTables interface {
	commit.Committer
	commit.SchemaEditor
	// DataFiles returns the wanted data files of a pinned table, with all statistics.
	DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error)
	// Open opens a file of a pinned table. See catalog.Opener.
	Open(ctx context.Context, t *catalog.Table, location string, size int64) (store.Object, error)
	// FileStore returns a store that writes and removes a table's data files below a folder.
	FileStore(ctx context.Context, table, folder string) (PromotedFiles, error)
}

// PromotedFiles writes and removes the files of a table.
type PromotedFiles interface {
	store.Uploader
	store.Writer
}

// Options configures a Promoter. All fields but Hold, Budget and Threads are required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (PromotedTables, string, error)
	// Catalog has all tables under the names that datasets use.
	Catalog catalog.Catalog
	// Loader returns a loader that reads the tables of the given catalog. That catalog opens no
	// files; all its files belong to tables of Catalog. The loader caches neither plans nor file
	// lists.
	Loader func(of catalog.Catalog) *loader.Loader
	// Hold keeps the snapshot of a pinned table from expiring until the Handle is released; nil: snapshots may expire while
	// they are read.
	Hold func(ctx context.Context, t *catalog.Table) (*release.Handle, error)
	// Effects returns the effects of a change of a training table's schema on the datasets that read
	// the table. It names a dataset only if shown returns true for it; nil: no dataset reads the tables.
	Effects func(ctx context.Context, change loader.SchemaChange, shown func(dataset string) bool) ([]loader.SchemaEffect, error)
	// Deletes reads the deletes of tables by the names that datasets use.
	Deletes *deletes.Pool
	Clock   func() time.Time
	Budget  *budget.Budget // nil is unlimited
	Threads int            // number of files written concurrently; 0 means 1
}

// Promoter adds joined columns to training tables. It is safe for concurrent use.
type Promoter struct {
	options    Options
	runRows    int64
	groupFiles int // per commit, unless the table has many files
}

// New makes a Promoter.
func New(o Options) *Promoter {
	o.Threads = cmp.Or(o.Threads, 1)
	return &Promoter{options: o, runRows: runRows, groupFiles: groupFiles}
}

// Earlier selects how to treat an unfinished promotion of the same entries.
type Earlier int

// The values of Earlier.
const (
	// ContinueEqual resumes the promotion if the staging tables are still at its snapshots, and
	// returns an error otherwise.
	ContinueEqual Earlier = iota
	// Continue resumes the promotion with the values of its snapshots.
	Continue
	// Restart begins a new promotion with the current snapshots.
	Restart
)

// PromotionRequest is a request to promote entries of a dataset.
type PromotionRequest struct {
	Dataset dataset.Dataset
	// Entries has the names of the staging entries to promote.
	Entries []string
	Earlier Earlier
	// DryRun estimates the promotion and writes nothing.
	DryRun bool
	ReaderOptions
	// Progress is called repeatedly, by one goroutine at a time; it may be nil.
	Progress func(PromotionProgress)
}

// PromotionProgress is the progress of a call.
type PromotionProgress struct {
	FilesDone, Files int // training files that have the columns, and all training files
	FilesChecked     int // files whose footers a dry run has read
	Rows             int64
	BytesWritten     int64
	Commits          int
}

// PromotionResult is the result of Promote; for a dry run, the expected result.
type PromotionResult struct {
	// Promotion identifies the entries, their definitions, and the snapshots of their tables.
	Promotion string           `json:"promotion"`
	Table     string           `json:"table"`
	Columns   []PromotedColumn `json:"columns"`
	// Snapshots has the staging table snapshots that the values come from, by entry.
	Snapshots map[string]dataset.SnapshotID `json:"snapshots"`
	// Existed is true if the table already had the columns. Then the call only wrote files that lacked
	// them.
	Existed bool `json:"existed,omitempty"`
	// Continued is true if an earlier call reserved the columns.
	Continued bool `json:"continued,omitempty"`
	// Schema is the id of the current schema; Before is the id of the previous one.
	Schema int `json:"schema"`
	Before int `json:"schema_before"`
	// Rows and Files count the rows and files that this call wrote or would write, each once, also if
	// several entries were added one after the other. Skipped counts the files that already had the
	// columns.
	Rows    int64 `json:"rows"`
	Files   int   `json:"files"`
	Skipped int   `json:"files_skipped"`
	Commits int   `json:"commits"`
	// BytesCopied is the size of the old files, and BytesWritten is the size of the new ones. A dry
	// run estimates BytesWritten.
	BytesCopied  int64 `json:"bytes_copied"`
	BytesWritten int64 `json:"bytes_written"`
	// Compared is the number of rows that were read back and compared with the join.
	Compared int64 `json:"rows_compared"`
	// Matches has the match counts of the rows that this call wrote, including deleted rows, by
	// entry. A dry run counts the sampled rows.
	Matches map[string]MatchCounts `json:"matches,omitempty"`
	// Estimate is the estimate of a dry run.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// PromotedColumn is a column of the training table that has the values of an entry.
type PromotedColumn struct {
	Name  string `json:"name"`
	ID    int    `json:"id"`
	Entry string `json:"entry"`
	Type  string `json:"type"` // in Arrow's notation
	// Old is the new name of the replaced column.
	Old string `json:"old,omitempty"`
}

// MatchCounts has the numbers of rows and matched rows of one entry.
type MatchCounts struct {
	Rows    int64 `json:"rows"`
	Matched int64 `json:"matched"`
}
