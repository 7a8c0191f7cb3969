package stage_test

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
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver of the tests' catalog

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/records"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const history = "ml.history"

// rig is a catalog in a folder, and what stages rows to it.
type rig struct {
	dir    string
	tables tables
	files  *errstore.Store
	budget *budget.Budget
	disk   *spool.Spool
	stager *stage.Stager
}

// tables are those of an icebergcat.Catalog. Its Commit can be replaced, and Made can fail.
type tables struct {
	*icebergcat.Catalog
	made   error
	commit func(ctx context.Context, change commit.Change) (commit.Committed, error)
	spec   int // of all files, unless it is 0
}

func (c *tables) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	files, err := c.Catalog.Files(ctx, t, columns, bounds)
	for i := range files {
		files[i].Spec = max(files[i].Spec, c.spec)
	}
	return files, err
}

func (c *tables) FileStore(ctx context.Context, table, folder string) (stage.FileStore, error) {
	return c.Catalog.FileStore(ctx, table, folder)
}

func (c *tables) Made(ctx context.Context, table, branch, token string) (commit.Committed, bool, error) {
	if c.made != nil {
		return commit.Committed{}, false, c.made
	}
	return c.Catalog.Made(ctx, table, branch, token)
}

func (c *tables) Commit(ctx context.Context, change commit.Change) (commit.Committed, error) {
	if c.commit != nil {
		return c.commit(ctx, change)
	}
	return c.Catalog.Commit(ctx, change)
}

// read returns what reads files of the tables.
func (c *tables) read(b *budget.Budget) func(context.Context, plan.Source, []catalog.Field) (array.RecordReader, error) {
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

// named returns what reads the names in files of position deletes.
func (c *tables) named(b *budget.Budget) func(context.Context, *catalog.Table, *catalog.DeleteFile) ([]string, error) {
	return deletes.New(deletes.Options{Files: c, Read: c.read(b), Budget: b}).Named
}

// newRig makes an empty catalog. Its budget has a limit in bytes.
func newRig(t *testing.T, limit int64, change func(*icebergcat.Options), rules ...errstore.Rule) *rig {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db"))
	require.NoError(t, err)
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	require.NoError(t, c.CreateNamespace(t.Context(), []string{"ml"}, nil))
	require.NoError(t, db.Close())
	r := &rig{dir: dir, budget: budget.New(limit), files: errstore.New(store.Local{}, rules...)}
	o := icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: dir, Warehouse: "file://" + dir, Store: r.files,
		Clock: time.Now, WriteNamespaces: []string{"ml"}, Budget: r.budget,
	}
	if change != nil {
		change(&o)
	}
	r.tables.Catalog, err = icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(r.tables.Close)
	r.disk, err = spool.Open(spool.Options{Folder: filepath.Join(dir, "spool"), Limit: 1 << 30})
	require.NoError(t, err)
	r.stager = stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return &r.tables, table, nil },
		Disk: func(what string) (extsort.RunStore, error) {
			return r.disk.Create(what)
		},
		Clock: time.Now, Budget: r.budget, Threads: 2, FileBytes: 1 << 20, Read: r.tables.read(r.budget), Files: &r.tables, Named: r.tables.named(r.budget),
	})
	t.Cleanup(func() {
		require.Zero(t, r.budget.Used(), "memory is still reserved")
		require.Zero(t, r.disk.Stats().Used, "local disk is still used")
	})
	return r
}

// schema is that of most rows of these tests.
func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "items", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "country", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	}, nil)
}

// rows returns a reader of rows in JSON form.
func rows(t *testing.T, schema *arrow.Schema, text string) array.RecordReader {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
	require.NoError(t, err)
	out, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	return out
}

// few are rows of two days.
const few = `[
	{"id": 3, "day": "2026-10-01", "items": [1, 2], "country": "CH"},
	{"id": 1, "day": "2026-10-01", "items": [], "country": "DE"},
	{"id": null, "day": "2026-10-02", "items": null, "country": null},
	{"id": 2, "day": "2026-10-02", "items": [3, null], "country": "FR"}
]`

// create is a request that creates the table.
func create() stage.TableWrite {
	return stage.TableWrite{Table: history, Key: []string{"id"}, New: stage.NewLayout{Buckets: 4}}
}

// stage stages rows and requires that it succeeds.
func (r *rig) stage(t *testing.T, request stage.TableWrite, schema *arrow.Schema, text string) stage.WriteResult {
	t.Helper()
	out, err := r.stager.Stage(t.Context(), request, rows(t, schema, text))
	require.NoError(t, err)
	return out
}

// listed returns the data files of a branch, as a fresh reader lists them.
func (r *rig) listed(t *testing.T, branch string) []catalog.File {
	t.Helper()
	pinned, err := r.tables.Table(t.Context(), history, dataset.Ref{Name: branch})
	require.NoError(t, err)
	files, err := r.tables.Files(t.Context(), pinned, nil, nil)
	require.NoError(t, err)
	return files
}

// column returns the values of a column of a branch, in the order of its files.
func (r *rig) column(t *testing.T, branch, name string) []string {
	t.Helper()
	out := []string{}
	for _, f := range r.listed(t, branch) {
		path, err := store.Path(f.Location)
		require.NoError(t, err)
		reader, err := records.Open(t.Context(), []string{path}, records.Options{})
		require.NoError(t, err)
		for reader.Next() {
			b := reader.RecordBatch()
			at := b.Schema().FieldIndices(name)
			for row := range int(b.NumRows()) {
				if len(at) == 0 {
					out = append(out, "absent")
					continue
				}
				out = append(out, b.Column(at[0]).ValueStr(row))
			}
		}
		require.NoError(t, reader.Err())
		reader.Release()
	}
	return out
}

// parquet returns the Parquet files in the folder, with those that are being uploaded.
func (r *rig) parquet(t *testing.T) []string {
	t.Helper()
	out := []string{}
	require.NoError(t, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".parquet") {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// python returns the Python with PyIceberg.
func python(t *testing.T) string {
	t.Helper()
	found := os.Getenv("PENSTOCK_PYTHON")
	if found == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python with PyIceberg; make test-go sets it")
	}
	return found
}

// broken returns the rig with storage that has accidents.
func (r *rig) broken(t *testing.T, rules ...errstore.Rule) *rig {
	t.Helper()
	out := *r
	out.files = errstore.New(store.Local{}, rules...)
	var err error
	out.tables = tables{}
	out.tables.Catalog, err = icebergcat.Open(t.Context(), icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: r.dir, Warehouse: "file://" + r.dir, Store: out.files,
		Clock: time.Now, WriteNamespaces: []string{"ml"}, Budget: r.budget,
	})
	require.NoError(t, err)
	t.Cleanup(out.tables.Close)
	out.stager = stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return &out.tables, table, nil },
		Disk:  func(what string) (extsort.RunStore, error) { return out.disk.Create(what) },
		Clock: time.Now, Budget: r.budget, Read: out.tables.read(r.budget), Files: &out.tables, Named: out.tables.named(r.budget),
	})
	return &out
}

// charged is an allocator that counts what was allocated beyond what the budget has reserved.
type charged struct {
	memory.Allocator
	budget *budget.Budget
	beyond int64
}

func (c *charged) Allocate(size int) []byte {
	c.beyond = max(c.beyond, int64(size)-c.budget.Used())
	return c.Allocator.Allocate(size)
}
