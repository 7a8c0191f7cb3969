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

// PromotedTables is a catalog with training tables that columns are added to. It is safe for concurrent use.
type PromotedTables interface {
	commit.Committer
	commit.SchemaEditor
	// DataFiles returns the wanted data files of a pinned table, with all statistics.
	DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error)
	// Open opens a file of a pinned table. See catalog.Opener.
	Open(ctx context.Context, t *catalog.Table, location string, size int64) (store.Object, error)
	// FileStore returns what writes and removes data files of a table below a folder.
	FileStore(ctx context.Context, table, folder string) (PromotedFiles, error)
}

// PromotedFiles writes the files of a table, and removes them.
type PromotedFiles interface {
	store.Uploader
	store.Writer
}

// Options are what a Promoter works with. All but Hold, Budget and Threads are required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (PromotedTables, string, error)
	// Catalog has all tables under the names that datasets use.
	Catalog catalog.Catalog
	// Loader returns a loader that reads the tables of a catalog, which opens no files: these are of
	// the tables of Catalog. It caches neither plans nor lists of files.
	Loader func(of catalog.Catalog) *loader.Loader
	// Hold keeps the snapshot of a pinned table from expiring until the Handle is released; nil: snapshots may expire while
	// they are read.
	Hold func(ctx context.Context, t *catalog.Table) (*release.Handle, error)
	// Deletes reads the deletes of tables under these names.
	Deletes *deletes.Pool
	Clock   func() time.Time
	Budget  *budget.Budget // nil is unlimited
	Threads int            // files that are written at the same time; 0 means 1
}

// Promoter makes joined columns those of training tables. It is safe for concurrent use.
type Promoter struct {
	options    Options
	runRows    int64
	groupFiles int // of a commit, unless the table has many
}

// New makes a Promoter.
func New(o Options) *Promoter {
	o.Threads = cmp.Or(o.Threads, 1)
	return &Promoter{options: o, runRows: runRows, groupFiles: groupFiles}
}

// Earlier is what to do with an unfinished promotion of the same entries.
type Earlier int

// What to do with it.
const (
	// ContinueEqual continues it if the staging tables are still at its snapshots, and refuses otherwise.
	ContinueEqual Earlier = iota
	// Continue continues it with the values of its snapshots.
	Continue
	// Restart begins a new one with the current snapshots.
	Restart
)

// PromotionRequest has what to promote.
type PromotionRequest struct {
	Dataset dataset.Dataset
	// Entries are the names of staging entries of the dataset.
	Entries []string
	Earlier Earlier
	// DryRun writes nothing, and estimates what would be written.
	DryRun bool
	// Progress is called from time to time, from one goroutine at a time; it may be nil.
	Progress func(PromotionProgress)
}

// PromotionProgress is how far a call is.
type PromotionProgress struct {
	FilesDone, Files int // that the training table has, of which FilesDone have the columns
	FilesChecked     int // whose footers a dry run has read
	Rows             int64
	BytesWritten     int64
	Commits          int
}

// PromotionResult is what a call did, or would do.
type PromotionResult struct {
	// Promotion identifies the entries, what they mean, and the snapshots of their tables.
	Promotion string           `json:"promotion"`
	Table     string           `json:"table"`
	Columns   []PromotedColumn `json:"columns"`
	// Snapshots are those of the staging tables that the values come from, by entry.
	Snapshots map[string]int64 `json:"snapshots"`
	// Existed is true if the table had the columns already.
	Existed bool `json:"existed,omitempty"`
	// Continued is true if an earlier call reserved the columns.
	Continued bool `json:"continued,omitempty"`
	// Schema is the id of the schema that is current now; Before that of the one before.
	Schema int `json:"schema"`
	Before int `json:"schema_before"`
	// Rows and Files are those that this call wrote, or would write, and Skipped the files that have the columns already.
	Rows    int64 `json:"rows"`
	Files   int   `json:"files"`
	Skipped int   `json:"files_skipped"`
	Commits int   `json:"commits"`
	// BytesCopied are those of the old files, BytesWritten those of the new ones; for a dry run, BytesWritten is estimated.
	BytesCopied  int64 `json:"bytes_copied"`
	BytesWritten int64 `json:"bytes_written"`
	// Compared are the rows that were read again, and whose values were compared with the join.
	Compared int64 `json:"rows_compared"`
	// Matches are the counts of the entries in the rows that this call wrote, deleted ones included.
	Matches map[string]MatchCounts `json:"matches,omitempty"`
	// Estimate is that of a dry run.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// PromotedColumn is a column of the training table that has the values of an entry.
type PromotedColumn struct {
	Name  string `json:"name"`
	ID    int    `json:"id"`
	Entry string `json:"entry"`
	Type  string `json:"type"`
	// Old is the new name of the column that it replaces.
	Old string `json:"old,omitempty"`
}

// MatchCounts are those of one entry.
type MatchCounts struct {
	Rows    int64 `json:"rows"`
	Matched int64 `json:"matched"`
}
