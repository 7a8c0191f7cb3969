package promote_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
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
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/promote"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rowsTable = "ml.rows"
	features  = "features.history"
)

// rig is a catalog in a folder, and a Promoter for its tables.
type rig struct {
	dir      string
	tables   tables
	others   *icesql.Catalog // another program
	files    *errstore.Store
	budget   *budget.Budget
	promoter *promote.Promoter
	options  promote.Options // of promoter
	stager   *stage.Stager
}

// tables is an icebergcat.Catalog some of whose methods tests can replace.
type tables struct {
	*icebergcat.Catalog
	commit    func(ctx context.Context, change commit.Change) (commit.Committed, error)
	at        func(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error)
	setSchema func(ctx context.Context, move commit.SchemaMove) error
	addSchema func(ctx context.Context, edit commit.SchemaEdit) (int, error)
	listing   error    // error of Files
	opened    []string // the tables that were opened at refs, by name
}

func (c *tables) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	if c.opened != nil {
		c.opened = append(c.opened, name)
	}
	return c.Catalog.Table(ctx, name, ref)
}

func (c *tables) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	if c.listing != nil {
		return nil, c.listing
	}
	return c.Catalog.Files(ctx, t, columns, bounds)
}

func (c *tables) FileStore(ctx context.Context, table, folder string) (promote.PromotedFiles, error) {
	return c.Catalog.FileStore(ctx, table, folder)
}

func (c *tables) Commit(ctx context.Context, change commit.Change) (commit.Committed, error) {
	if c.commit != nil {
		return c.commit(ctx, change)
	}
	return c.Catalog.Commit(ctx, change)
}

func (c *tables) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	if c.at != nil {
		return c.at(ctx, name, pin)
	}
	return c.Catalog.At(ctx, name, pin)
}

func (c *tables) SetSchema(ctx context.Context, move commit.SchemaMove) error {
	if c.setSchema != nil {
		return c.setSchema(ctx, move)
	}
	return c.Catalog.SetSchema(ctx, move)
}

func (c *tables) AddSchema(ctx context.Context, edit commit.SchemaEdit) (int, error) {
	if c.addSchema != nil {
		return c.addSchema(ctx, edit)
	}
	return c.Catalog.AddSchema(ctx, edit)
}

// staged adapts tables to the interface of the stager.
type staged struct{ *tables }

func (s staged) FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error) {
	return s.Catalog.FileStore(ctx, table, folder)
}

// newRig creates an empty catalog.
func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	for _, namespace := range []string{"ml", "features"} {
		require.NoError(t, c.CreateNamespace(t.Context(), []string{namespace}, nil))
	}
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	r := &rig{dir: dir, others: c, budget: budget.New(1 << 30), files: errstore.New(store.Local{})}
	r.tables.Catalog, err = icebergcat.Open(t.Context(), icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: dir, Warehouse: "file://" + dir, Store: r.files,
		Clock: time.Now, WriteNamespaces: []string{"ml", "features"}, Budget: r.budget,
	})
	require.NoError(t, err)
	t.Cleanup(r.tables.Close)
	r.stager = stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return staged{&r.tables}, table, nil },
		Clock: time.Now,
		Rows: datafile.Options{
			Disk:   func(string) (extsort.RunStore, error) { return nil, errors.New("no disk") },
			Budget: r.budget,
		},
	})
	r.options = promote.Options{
		Route:   func(table string) (promote.PromotedTables, string, error) { return &r.tables, table, nil },
		Catalog: &r.tables, Loader: r.loader(t), Deletes: r.deletes(t), Clock: time.Now, Budget: r.budget, Threads: 2,
	}
	r.promoter = promote.New(r.options)
	t.Cleanup(func() { require.Zero(t, r.budget.Used(), "memory is still reserved") })
	return r
}

// loader returns a function that creates loaders.
func (r *rig) loader(t *testing.T) func(of catalog.Catalog) *loader.Loader {
	t.Helper()
	scanner, err := scan.New(scan.Options{Files: &r.tables, Budget: r.budget})
	require.NoError(t, err)
	return func(of catalog.Catalog) *loader.Loader {
		return loader.New(loader.Options{
			Catalog: of, Budget: r.budget,
			Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
				rows, err := scanner.Open(ctx, source, columns)
				if err != nil {
					return nil, err
				}
				return rows, nil
			},
		})
	}
}

// deletes returns a pool that reads delete files.
func (r *rig) deletes(t *testing.T) *deletes.Pool {
	t.Helper()
	scanner, err := scan.New(scan.Options{Files: &r.tables, Budget: r.budget})
	require.NoError(t, err)
	return deletes.New(deletes.Options{
		Files: &r.tables, Budget: r.budget,
		Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
			return scanner.Open(ctx, source, columns)
		},
	})
}

// create creates the training table, bucketed by key, in a format version, and the staging table.
func (r *rig) create(t *testing.T, version int) {
	t.Helper()
	require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{
		Table: rowsTable, Version: version,
		Columns:   []commit.NewColumn{{ID: 1, Name: "row", Type: "long"}, {ID: 2, Name: "key", Type: "long"}},
		Partition: []commit.PartitionBy{{Column: 2, Name: "by_key", Transform: "bucket[3]"}},
	}))
	r.append(t, rowsTable, `{"row": 0, "key": 1}, {"row": 1, "key": 2}, {"row": 2, "key": null}, {"row": 3, "key": 1}, {"row": 4, "key": 9}`)
	r.append(t, rowsTable, `{"row": 5, "key": 3}, {"row": 6, "key": 1}, {"row": 7, "key": 4}`)
	r.append(t, features, `{"key": 1, "f": 10}, {"key": 2, "f": 20}, {"key": 4, "f": null}, {"key": null, "f": 5}`)
}

// createSmall creates a training table of two files, and the staging table.
func (r *rig) createSmall(t *testing.T) {
	t.Helper()
	r.append(t, rowsTable, `{"row": 0, "key": 1}`)
	r.append(t, rowsTable, `{"row": 1, "key": 5}`)
	r.append(t, features, `{"key": 1, "f": 10}`)
}

// append stages rows in JSON form.
func (r *rig) append(t *testing.T, table, rows string) {
	t.Helper()
	r.appendTo(t, "", table, rows)
}

// appendTo stages rows in JSON form to a branch; "" is main. The rows have the columns that the text names.
func (r *rig) appendTo(t *testing.T, branch, table, rows string) {
	t.Helper()
	var fields []arrow.Field
	for _, name := range []string{"row", "row__before_promotion", "f", "key"} {
		if strings.Contains(rows, `"`+name+`"`) {
			fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
		}
	}
	schema := arrow.NewSchema(fields, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+rows+"]"))
	require.NoError(t, err)
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	request := dataset.TableWrite{Table: table, Branch: branch, Key: []string{"key"}, AllowDuplicates: true}
	if _, err := r.tables.State(t.Context(), table, ""); fault.KindOf(err) == fault.NotFound {
		request.Buckets = 2
	}
	_, err = r.stager.Stage(t.Context(), stage.CallOptions{}, request, in)
	require.NoError(t, err)
}

// want returns the join of the rows of create with the first features, in the form that read
// returns.
func want() []string {
	return []string{"0 10", "1 20", "2 (null)", "3 10", "4 (null)", "5 (null)", "6 10", "7 (null)"}
}

// request returns a request to promote the entry history.
func request() promote.PromotionRequest {
	return promote.PromotionRequest{
		Dataset: dataset.Dataset{
			Name: "home", Training: dataset.Training{Table: rowsTable}, Key: []string{"key"}, Staging: []dataset.Staging{{Table: features}},
		},
		Entries: []string{"history"},
	}
}

// read returns columns of the training table, sorted.
func (r *rig) read(t *testing.T, columns ...string) []string {
	t.Helper()
	query := dataset.Query{
		Rows:    dataset.Rows{Inline: &dataset.Dataset{Training: dataset.Training{Table: rowsTable}}},
		Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}},
	}
	for _, c := range columns {
		query.Columns = append(query.Columns, dataset.Column{Column: c})
	}
	l := r.loader(t)(&r.tables)
	planned, err := l.Plan(t.Context(), query.Defaults())
	require.NoError(t, err)
	rows, err := l.Open(t.Context(), planned, loader.StreamOptions{})
	require.NoError(t, err)
	defer rows.Release()
	var out []string
	for rows.Next() {
		b := rows.RecordBatch()
		for i := range int(b.NumRows()) {
			var values []string
			for k := range columns {
				values = append(values, b.Column(k).ValueStr(i))
			}
			out = append(out, strings.Join(values, " "))
		}
	}
	require.NoError(t, rows.Err())
	slices.Sort(out)
	return out
}

// listed returns the data files of main.
func (r *rig) listed(t *testing.T) []catalog.File {
	t.Helper()
	pinned, err := r.tables.Table(t.Context(), rowsTable, dataset.Ref{})
	require.NoError(t, err)
	files, err := r.tables.Files(t.Context(), pinned, nil, nil)
	require.NoError(t, err)
	return files
}
