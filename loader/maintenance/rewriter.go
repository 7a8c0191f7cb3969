package maintenance

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/transaction"
)

// Tables is a catalog whose tables a Rewriter writes to. It is safe for concurrent use.
type Tables interface {
	PinnedTables
	transaction.TableStates
	// Commit makes a change. See commit.Committer.
	Commit(ctx context.Context, change commit.Change) (commit.Committed, error)
	// Made returns the commit that made a change, or false if there is none. Only the Table, Branch, Token, Fresh and Rows of the
	// change are used. It returns the same errors as Commit.
	Made(ctx context.Context, change commit.Change) (commit.Committed, bool, error)
	// FileStore returns a store that writes and removes data files of a table below a folder.
	FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error)
}

// PinnedTables opens tables at snapshots, and lists their data files.
type PinnedTables interface {
	// Table pins the current state of a ref of a table. See catalog.Catalog.
	Table(ctx context.Context, table string, ref dataset.Ref) (*catalog.Table, error)
	// At opens a state of a table that was pinned before. See catalog.Catalog.
	At(ctx context.Context, table string, pin dataset.TablePin) (*catalog.Table, error)
	// Files lists the data files of a pinned table. See catalog.Catalog.
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
	// DataFiles returns the wanted data files of a pinned table as its manifests describe them, with all statistics.
	DataFiles(ctx context.Context, t *catalog.Table, wanted func(location string) bool) ([]commit.DataFile, error)
	// ColumnBytes returns the stored sizes of columns of the data files of a pinned table. See catalog.Sizer.
	ColumnBytes(ctx context.Context, t *catalog.Table, columns []int) (map[string]int64, error)
}

// Options configure a Rewriter. All fields are required; in Rows, only Disk is required.
type Options struct {
	// Route returns the catalog of a table, and its name there.
	Route func(table string) (Tables, string, error)
	// Read reads columns of a table's files. The table in source has the name that users give it.
	Read func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	// Named returns the locations of the data files whose rows a file of position deletes names.
	Named func(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile) ([]string, error)
	// Files opens files of tables. The tables have the names that users give them.
	Files catalog.Opener
	Clock func() time.Time
	Rows  datafile.Options
}

// Rewriter rewrites files of tables. It is safe for concurrent use.
type Rewriter struct{ options Options }

// New makes a Rewriter.
func New(o Options) *Rewriter {
	o.Rows = o.Rows.Defaults()
	return &Rewriter{options: o}
}
