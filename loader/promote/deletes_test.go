package promote_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// deleted is a delete file that another program adds.
type deleted struct {
	rig  *rig
	of   catalog.File
	name string
}

// partition returns the partition of the file.
func (d deleted) partition() map[int]any {
	if bucket, ok := d.of.Partition[0].(int64); ok {
		return map[int]any{1000: int32(bucket)} //nolint:gosec // a bucket of three
	}
	return map[int]any{1000: nil}
}

// parquet writes a delete file.
func (d deleted) parquet(t *testing.T, ids []int, fields []arrow.Field, rows string) (location string, bytesOf int64, count int64) {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, parquettest.Write(&out, in, parquettest.Options{FieldIDs: ids}))
	path := filepath.Join(d.rig.dir, "ml", "rows", "data", d.name+".parquet")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return "file://" + path, int64(out.Len()), b.NumRows()
}

// positions deletes the first row of the file with a position delete file that names the file only
// in its content.
func (d deleted) positions(t *testing.T) {
	t.Helper()
	fields := []arrow.Field{{Name: "file_path", Type: arrow.BinaryTypes.String}, {Name: "pos", Type: arrow.PrimitiveTypes.Int64}}
	location, size, n := d.parquet(t, []int{catalog.PathField, catalog.PositionField}, fields, fmt.Sprintf(`[{"file_path": %q, "pos": 0}]`, d.of.Location))
	spec := d.rig.load(t).Spec()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentPosDeletes, location, iceberg.ParquetFile, d.partition(), nil, nil, n, size)
	require.NoError(t, err)
	d.rig.add(t, b.Build())
}

// equal deletes the rows with the given values from the file's partition.
func (d deleted) equal(t *testing.T, rows string) {
	t.Helper()
	location, size, n := d.parquet(t, []int{1}, []arrow.Field{{Name: "row", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, rows)
	spec := d.rig.load(t).Spec()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentEqDeletes, location, iceberg.ParquetFile, d.partition(), nil, nil, n, size)
	require.NoError(t, err)
	d.rig.add(t, b.EqualityFieldIDs([]int{1}).Build())
}

// vector deletes the first row of the file with a deletion vector.
func (d deleted) vector(t *testing.T) {
	t.Helper()
	tbl := d.rig.load(t)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	spec := tbl.Spec()
	w := dv.NewDVWriter(fs.(iceio.WriteFileIO), func(int32) *iceberg.PartitionSpec { return &spec })
	require.NoError(t, w.Add(d.of.Location, []int64{0}, int32(spec.ID()), d.partition())) //nolint:gosec // small
	files, err := w.Flush(t.Context(), "file://"+d.rig.dir+"/ml/rows/data/"+d.name+".puffin")
	require.NoError(t, err)
	d.rig.add(t, files...)
}

// add commits delete files.
func (r *rig) add(t *testing.T, files ...iceberg.DataFile) {
	t.Helper()
	tx := r.load(t).NewTransaction()
	require.NoError(t, tx.NewRowDelta(nil).AddDeletes(files...).Commit(t.Context()))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}

func (r *rig) load(t *testing.T) *icetable.Table {
	t.Helper()
	out, err := r.others.LoadTable(t.Context(), icetable.Identifier{"ml", "rows"})
	require.NoError(t, err)
	return out
}

// Rows that were deleted before or during a promotion stay deleted; the other rows get their
// values.
//
// spec: promote-1, promote-7
func TestDeletedRowsStayDeleted(t *testing.T) {
	for version := 2; version <= 3; version++ {
		t.Run(fmt.Sprintf("format version %d", version), func(t *testing.T) {
			r := newRig(t)
			r.create(t, version)
			remove := func(file int, name string) {
				d := deleted{rig: r, of: r.listed(t)[file], name: name}
				if version == 2 {
					d.positions(t)
				} else {
					d.vector(t)
				}
			}
			remove(0, "a")
			deleted{rig: r, of: r.listed(t)[1], name: "b"}.equal(t, `[{"row": 0}, {"row": 3}, {"row": 4}]`)
			left := []string(nil)
			r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				r.tables.commit = nil
				remove(2, "c")
				left = r.read(t, "row")
				return r.tables.Catalog.Commit(ctx, change)
			}
			got, err := r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.EqualValues(t, 8, got.Rows)
			require.Less(t, len(left), 7)
			var rows []string
			for _, row := range want() {
				if number, _, _ := strings.Cut(row, " "); slices.Contains(left, number) {
					rows = append(rows, row)
				}
			}
			require.Equal(t, rows, r.read(t, "row", "f"))
			for _, f := range r.listed(t) {
				for _, d := range f.Deletes.Positions {
					require.True(t, commit.Owned(d.Location), "deletes by others are left: %s", d.Location)
				}
			}
		})
	}
}
