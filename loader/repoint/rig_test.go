package repoint_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	iceio "github.com/apache/iceberg-go/io"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver of the tests' catalog

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/repoint"
	"github.com/penstock/penstock/loader/scan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const events = "ml.events"

// rowsOfFile is the number of rows of each file. The ids of file n begin at n*rowsOfFile.
const rowsOfFile = 100

// rig is a table of ids, partitioned by day, and another program that deletes its rows.
type rig struct {
	dir    string
	tables *icebergcat.Catalog
	others *icesql.Catalog
	pool   *deletes.Pool
	named  int
}

func newRig(t *testing.T, version int) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.dir, "catalog.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	r.others, err = icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + r.dir})
	require.NoError(t, err)
	require.NoError(t, r.others.CreateNamespace(t.Context(), []string{"ml"}, nil))
	r.tables, err = icebergcat.Open(t.Context(), icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: r.dir, Warehouse: "file://" + r.dir, Store: store.Local{},
		Clock: time.Now, WriteNamespaces: []string{"ml"},
	})
	require.NoError(t, err)
	t.Cleanup(r.tables.Close)
	require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{
		Table: events, Version: version,
		Columns:   []commit.NewColumn{{ID: 1, Name: "id", Type: "long", Required: true}, {ID: 2, Name: "day", Type: "date"}},
		Partition: []commit.PartitionBy{{Column: 2, Name: "day", Transform: "identity"}},
	}))
	scanner, err := scan.New(scan.Options{Files: r.tables})
	require.NoError(t, err)
	r.pool = deletes.New(deletes.Options{Files: r.tables, Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
		return scanner.Open(ctx, source, columns)
	}})
	return r
}

// write writes a Parquet file, and returns its location and its length.
func (r *rig) write(t *testing.T, name string, fields []arrow.Field, ids []int, columns ...arrow.Array) (location string, length int64) {
	t.Helper()
	batch := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len()))
	reader, err := array.NewRecordReader(batch.Schema(), []arrow.RecordBatch{batch})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, parquettest.Write(&out, reader, parquettest.Options{FieldIDs: ids}))
	path := filepath.Join(r.dir, "ml", "events", "data", name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return "file://" + path, int64(out.Len())
}

// file writes data file n under a name, and describes it.
func (r *rig) file(t *testing.T, name string, n int) commit.DataFile {
	t.Helper()
	ids, days := array.NewInt64Builder(memory.DefaultAllocator), array.NewDate32Builder(memory.DefaultAllocator)
	for i := range rowsOfFile {
		ids.Append(int64(n*rowsOfFile + i))
		days.Append(1)
	}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true}}
	location, length := r.write(t, name+".parquet", fields, []int{1, 2}, ids.NewArray(), days.NewArray())
	return commit.DataFile{Location: location, Partition: []any{int64(1)}, Rows: rowsOfFile, Bytes: length}
}

func (r *rig) commit(t *testing.T, change commit.Change) commit.Committed {
	t.Helper()
	change.Table, change.Token = events, commit.NewToken(time.Now(), "")
	made, err := r.tables.Commit(t.Context(), change)
	require.NoError(t, err)
	return made
}

// deletePositions commits one position delete file as the other program. If name is "", only the
// content of the delete file names the data files.
func (r *rig) deletePositions(t *testing.T, name string, of ...map[string][]int64) {
	t.Helper()
	paths, at := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for _, one := range of {
		for path, positions := range one {
			for _, p := range positions {
				paths.Append(path)
				at.Append(p)
			}
		}
	}
	rows := int64(paths.Len())
	fields := []arrow.Field{{Name: "file_path", Type: arrow.BinaryTypes.String}, {Name: "pos", Type: arrow.PrimitiveTypes.Int64}}
	location, length := r.write(t, fmt.Sprintf("others-%d.parquet", r.next()), fields, []int{catalog.PathField, catalog.PositionField}, paths.NewArray(), at.NewArray())
	tbl := r.load(t)
	b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentPosDeletes, location, iceberg.ParquetFile, map[int]any{1000: iceberg.Date(1)}, nil, nil, rows, length)
	require.NoError(t, err)
	if name != "" {
		b.ReferencedDataFile(name)
	}
	r.deleteFiles(t, b.Build())
}

// deleteByVectors commits deletion vectors in one Puffin file as the other program.
func (r *rig) deleteByVectors(t *testing.T, of map[string][]int64) {
	t.Helper()
	tbl := r.load(t)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	spec := tbl.Spec()
	w := dv.NewDVWriter(fs.(iceio.WriteFileIO), func(int32) *iceberg.PartitionSpec { return &spec })
	for path, positions := range of {
		require.NoError(t, w.Add(path, positions, int32(spec.ID()), map[int]any{1000: iceberg.Date(1)})) //nolint:gosec // small
	}
	files, err := w.Flush(t.Context(), fmt.Sprintf("file://%s/ml/events/data/others-%d.puffin", r.dir, r.next()))
	require.NoError(t, err)
	r.deleteFiles(t, files...)
}

func (r *rig) deleteFiles(t *testing.T, files ...iceberg.DataFile) {
	t.Helper()
	tx := r.load(t).NewTransaction()
	require.NoError(t, tx.NewRowDelta(nil).AddDeletes(files...).Commit(t.Context()))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}

func (r *rig) next() int {
	r.named++
	return r.named
}

func (r *rig) load(t *testing.T) *icetable.Table {
	t.Helper()
	out, err := r.others.LoadTable(t.Context(), icetable.Identifier{"ml", "events"})
	require.NoError(t, err)
	return out
}

// live returns the table at main, and its files by name.
func (r *rig) live(t *testing.T) (*catalog.Table, map[string]catalog.File) {
	t.Helper()
	pinned, err := r.tables.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	files, err := r.tables.Files(t.Context(), pinned, nil, nil)
	require.NoError(t, err)
	out := map[string]catalog.File{}
	for _, f := range files {
		out[filepath.Base(f.Location)] = f
	}
	return pinned, out
}

// options returns the options of a call for a table of a format version.
func (r *rig) options(version int) repoint.Options {
	return repoint.Options{
		Version: version, Deletes: r.pool, Files: store.Local{}, Budget: budget.New(64 << 20),
		Name: func(extension string) string {
			return fmt.Sprintf("file://%s/ml/events/data/ours-%d%s", r.dir, r.next(), extension)
		},
	}
}

// copies replaces files and their deletes by copies under other names, and returns the change.
func (r *rig) copies(t *testing.T, version int, stays func(string) bool, files ...int) (commit.Change, commit.Committed) {
	t.Helper()
	pinned, live := r.live(t)
	change := commit.Change{Mode: commit.Rewrite, Base: pinned.Pin.Snapshot}
	var moved []repoint.MovedFile
	for _, n := range files {
		old := live[fmt.Sprintf("f%d.parquet", n)]
		made := r.file(t, fmt.Sprintf("copy%d-of-%d", r.next(), n), n)
		made.Sequence, made.FirstRow = old.Sequence, old.FirstRow
		change.Add, change.Remove = append(change.Add, made), append(change.Remove, old.Location)
		moved = append(moved, repoint.MovedFile{Old: old, New: made.Location})
	}
	o := r.options(version)
	o.Stays = stays
	got, err := repoint.Write(t.Context(), pinned, moved, o)
	require.NoError(t, err)
	require.Zero(t, o.Budget.Used())
	change.AddDeletes, change.RemoveDeletes = got.Add, got.Remove
	return change, r.commit(t, change)
}

// ids returns the ids of the table's rows, read by PyIceberg.
func (r *rig) ids(t *testing.T) []int {
	t.Helper()
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python to run PyIceberg with; make test-go sets it")
	}
	out, err := exec.CommandContext(t.Context(), python, "testdata/read_rows.py", r.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var ids []int
	require.NoError(t, json.Unmarshal(out, &ids), "%s", out)
	return ids
}

// without returns the ids of all rows of some files, except the deleted ids.
func without(files int, deleted ...int) []int {
	gone := map[int]bool{}
	for _, id := range deleted {
		gone[id] = true
	}
	var out []int
	for id := range files * rowsOfFile {
		if !gone[id] {
			out = append(out, id)
		}
	}
	return out
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
