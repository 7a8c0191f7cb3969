// Package stagetest provides a catalog in a folder, and a Stager for it, to the tests of packages
// that write to tables.
package stagetest

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver of the tests' catalog

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/foreign"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/stage"
)

// History is the name of the table of most tests.
const History = "ml.history"

// Unlimited is a budget that is large enough for every test.
const Unlimited = 1 << 30

// Rig is a catalog in a folder, with a Stager for it.
type Rig struct {
	Dir    string
	Tables Tables
	Files  *errstore.Store
	Budget *budget.Budget
	Rows   datafile.Options
	Stager *stage.Stager
	spool  *spool.Spool
}

// Tables are the tables of an icebergcat.Catalog, with faults that tests set.
type Tables struct {
	*icebergcat.Catalog
	// MadeErr is the error that Made returns for a change that is not fresh. If it is nil, Made calls the catalog.
	MadeErr error
	// OnMade is called once before Made looks for a change in main, unless it is nil.
	OnMade func()
	// OnCommit replaces Commit, unless it is nil.
	OnCommit func(ctx context.Context, change commit.Change) (commit.Committed, error)
	// OnState changes the states that State returns, unless it is nil.
	OnState func(*commit.TableState)
	// ChoosesFolders makes MayCreate return no folder, as for a catalog that creates tables itself.
	ChoosesFolders bool
	// Spec replaces the partition spec of all listed files, unless it is 0.
	Spec int
}

// Files implements stage.WritableTables.
func (c *Tables) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	files, err := c.Catalog.Files(ctx, t, columns, bounds)
	for i := range files {
		files[i].Spec = max(files[i].Spec, c.Spec)
	}
	return files, err
}

// State implements stage.WritableTables.
func (c *Tables) State(ctx context.Context, table, branch string) (*commit.TableState, error) {
	state, err := c.Catalog.State(ctx, table, branch)
	if err == nil && c.OnState != nil {
		c.OnState(state)
	}
	return state, err
}

// MayCreate implements stage.WritableTables.
func (c *Tables) MayCreate(table commit.NewTable) (string, error) {
	folder, err := c.Catalog.MayCreate(table)
	if c.ChoosesFolders {
		folder = ""
	}
	return folder, err
}

// FileStore implements stage.WritableTables.
func (c *Tables) FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error) {
	return c.Catalog.FileStore(ctx, table, folder)
}

// Made implements stage.WritableTables.
func (c *Tables) Made(ctx context.Context, change commit.Change) (commit.Committed, bool, error) {
	if before := c.OnMade; before != nil && change.Branch == commit.Main {
		c.OnMade = nil
		before()
	}
	if c.MadeErr != nil && !change.Fresh {
		return commit.Committed{}, false, c.MadeErr
	}
	return c.Catalog.Made(ctx, change)
}

// Commit implements stage.WritableTables.
func (c *Tables) Commit(ctx context.Context, change commit.Change) (commit.Committed, error) {
	if c.OnCommit != nil {
		return c.OnCommit(ctx, change)
	}
	return c.Catalog.Commit(ctx, change)
}

// Read returns a function that reads files of the tables.
func (c *Tables) Read(b *budget.Budget) func(context.Context, plan.Source, []catalog.Field) (array.RecordReader, error) {
	return func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
		scanner, err := scan.New(scan.Options{Files: c, Budget: b})
		if err != nil {
			return nil, err
		}
		reader, err := scanner.Open(ctx, source, columns)
		if err != nil {
			return nil, err
		}
		return reader, nil
	}
}

// Named returns a function that reads the names in files of position deletes.
func (c *Tables) Named(b *budget.Budget) func(context.Context, *catalog.Table, *catalog.DeleteFile) ([]string, error) {
	return deletes.New(deletes.Options{Files: c, Read: c.Read(b), Budget: b}).Named
}

// New makes an empty catalog. limit is its budget in bytes. The storage fails according to the
// rules.
func New(t *testing.T, limit int64, change func(*icebergcat.Options), rules ...errstore.Rule) *Rig {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db"))
	require.NoError(t, err)
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	require.NoError(t, c.CreateNamespace(t.Context(), []string{"ml"}, nil))
	require.NoError(t, db.Close())
	r := &Rig{Dir: dir, Budget: budget.New(limit)}
	r.spool, err = spool.Open(spool.Options{Folder: filepath.Join(dir, "spool"), Limit: 1 << 30})
	require.NoError(t, err)
	r.Rows = datafile.Options{
		Disk:   func(what string) (extsort.RunStore, error) { return r.spool.Create(what) },
		Budget: r.Budget, Threads: 2, FileBytes: 1 << 20,
	}
	r.open(t, change, rules...)
	t.Cleanup(func() {
		require.Zero(t, r.Budget.Used(), "memory is still reserved")
		require.Zero(t, r.spool.Stats().Used, "local disk is still used")
	})
	return r
}

// open opens the catalog, with storage that fails according to the rules.
func (r *Rig) open(t *testing.T, change func(*icebergcat.Options), rules ...errstore.Rule) {
	t.Helper()
	r.Files = errstore.New(store.Local{}, rules...)
	o := icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: r.Dir, Warehouse: "file://" + r.Dir, Store: r.Files,
		Clock: time.Now, WriteNamespaces: []string{"ml"}, Budget: r.Budget,
	}
	if change != nil {
		change(&o)
	}
	catalog, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(catalog.Close)
	r.Tables = Tables{Catalog: catalog}
	r.Restart(r.Rows)
}

// Restart replaces the Stager with one that has other options for writing rows.
func (r *Rig) Restart(rows datafile.Options) {
	r.Rows = rows
	r.Stager = stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return &r.Tables, table, nil }, Clock: time.Now, Rows: rows,
		Read: r.Tables.Read(r.Budget),
	})
}

// Broken returns the rig with storage that fails according to the rules, and without parallel
// writers.
func (r *Rig) Broken(t *testing.T, rules ...errstore.Rule) *Rig {
	t.Helper()
	out := *r
	out.Rows.Threads, out.Rows.FileBytes = 0, 0
	out.open(t, nil, rules...)
	return &out
}

// Schema returns the schema of most rows in tests.
func Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "items", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "country", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	}, nil)
}

// Rows returns a reader of rows in JSON form.
func Rows(t *testing.T, schema *arrow.Schema, text string) array.RecordReader {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
	require.NoError(t, err)
	out, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	return out
}

// Few are rows of two days.
const Few = `[
	{"id": 3, "day": "2026-10-01", "items": [1, 2], "country": "CH"},
	{"id": 1, "day": "2026-10-01", "items": [], "country": "DE"},
	{"id": null, "day": "2026-10-02", "items": null, "country": null},
	{"id": 2, "day": "2026-10-02", "items": [3, null], "country": "FR"}
]`

// Create returns a request that creates the table.
func Create() dataset.TableWrite {
	return dataset.TableWrite{Table: History, Key: []string{"id"}, Buckets: 4}
}

// Stage stages rows, even if their keys are repeated or the table has the rows, and requires success.
func (r *Rig) Stage(t *testing.T, request dataset.TableWrite, schema *arrow.Schema, text string) stage.WriteResult {
	t.Helper()
	request.AllowDuplicates, request.Again = true, new(true)
	out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, Rows(t, schema, text))
	require.NoError(t, err)
	return out
}

// Listed returns the data files of a branch, as a new reader lists them.
func (r *Rig) Listed(t *testing.T, branch string) []catalog.File {
	t.Helper()
	pinned, err := r.Tables.Table(t.Context(), History, dataset.Ref{Name: branch})
	require.NoError(t, err)
	files, err := r.Tables.Files(t.Context(), pinned, nil, nil)
	require.NoError(t, err)
	return files
}

// Column returns the values of a column of a branch, in the order of its files.
func (r *Rig) Column(t *testing.T, branch, name string) []string {
	t.Helper()
	out := []string{}
	for _, f := range r.Listed(t, branch) {
		path, err := store.Path(f.Location)
		require.NoError(t, err)
		reader, err := foreign.Open(t.Context(), []string{path}, foreign.Options{})
		require.NoError(t, err)
		for reader.Next() {
			b := reader.RecordBatch()
			at := b.Schema().FieldIndices(name)
			for row := range int(b.NumRows()) {
				if len(at) == 0 {
					out = append(out, "absent")
					continue
				}
				out = append(out, strings.Clone(b.Column(at[0]).ValueStr(row)))
			}
		}
		require.NoError(t, reader.Err())
		reader.Release()
	}
	return out
}

// Parquet returns the Parquet files in the folder, including unfinished uploads.
func (r *Rig) Parquet(t *testing.T) []string {
	t.Helper()
	out := []string{}
	require.NoError(t, filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".parquet") {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// Python returns the path of a Python interpreter with PyIceberg.
func Python(t *testing.T) string {
	t.Helper()
	found := os.Getenv("PENSTOCK_PYTHON")
	if found == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python with PyIceberg; make test-go sets it")
	}
	return found
}

// Daily creates a table with partitions of days and buckets.
func (r *Rig) Daily(t *testing.T) { r.DailyWith(t, nil, nil) }

// DailyWith creates the table of Daily with properties and a sort order.
func (r *Rig) DailyWith(t *testing.T, properties map[string]string, sort []commit.SortBy) {
	t.Helper()
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: History, Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long"},
			{ID: 2, Name: "day", Type: "date"},
			{ID: 4, Name: "country", Type: "string"},
			{ID: 3, Name: "items", Type: `{"type":"list","element-id":5,"element":"long","element-required":false}`},
		},
		Partition: []commit.PartitionBy{{Column: 1, Name: "id_bucket", Transform: "bucket[4]"}, {Column: 2, Name: "day", Transform: "identity"}},
		Sort:      sort, Properties: properties,
	}))
}
