package stagetest

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/puffin"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
)

// Load loads the table with iceberg-go, which acts as another writer.
func (r *Rig) Load(t *testing.T) *icetable.Table {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.Dir, "catalog.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + r.Dir})
	require.NoError(t, err)
	out, err := c.LoadTable(t.Context(), icecatalog.ToIdentifier(History))
	require.NoError(t, err)
	return out
}

// erasing is a delete file to commit.
type erasing struct {
	content []byte
	rows    int
	build   func(*iceberg.DataFileBuilder)
	kind    iceberg.ManifestEntryContent
	puffin  bool
}

// erase commits a delete file for the partition of a data file.
func (r *Rig) erase(t *testing.T, of catalog.File, e erasing) {
	t.Helper()
	tbl := r.Load(t)
	format, name := iceberg.ParquetFile, "erased-"+uuid.NewString()+".parquet"
	if e.puffin {
		format = iceberg.PuffinFile
	}
	path := filepath.Join(r.Dir, name)
	require.NoError(t, os.WriteFile(path, e.content, 0o600))
	spec, partition := tbl.Metadata().PartitionSpecByID(of.Spec), map[int]any{}
	for i := range spec.NumFields() {
		switch v := of.Partition[i].(type) {
		case int64:
			partition[spec.Field(i).FieldID] = int32(v)
		default:
			partition[spec.Field(i).FieldID] = v
		}
	}
	b, err := iceberg.NewDataFileBuilder(*spec, e.kind, "file://"+path, format, partition, nil, nil, int64(e.rows), int64(len(e.content)))
	require.NoError(t, err)
	e.build(b)
	tx := tbl.NewTransaction()
	require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(t.Context()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// ErasePositions deletes rows of data files of one partition. The delete file names its only data file if named is true.
func (r *Rig) ErasePositions(t *testing.T, named bool, row int64, files ...catalog.File) {
	t.Helper()
	slices.SortFunc(files, func(a, b catalog.File) int { return len(a.Location) - len(b.Location) })
	paths, rows := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for _, f := range files {
		paths.Append(f.Location)
		rows.Append(row)
	}
	content := r.FileOf(t, []string{"file_path", "pos"}, []int{catalog.PathField, catalog.PositionField}, paths.NewArray(), rows.NewArray())
	r.erase(t, files[0], erasing{content: content, rows: len(files), kind: iceberg.EntryContentPosDeletes, build: func(b *iceberg.DataFileBuilder) {
		if named {
			path := map[int][]byte{catalog.PathField: []byte(files[0].Location)}
			b.LowerBoundValues(path).UpperBoundValues(path)
		}
	}})
}

// EraseValues deletes the rows of an id that are in the partition of a data file.
func (r *Rig) EraseValues(t *testing.T, of catalog.File, id int64) {
	t.Helper()
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	ids.Append(id)
	content := r.FileOf(t, []string{"id"}, []int{1}, ids.NewArray())
	r.erase(t, of, erasing{content: content, rows: 1, kind: iceberg.EntryContentEqDeletes, build: func(b *iceberg.DataFileBuilder) {
		b.EqualityFieldIDs([]int{1})
	}})
}

// EraseByVector deletes rows of a data file with a deletion vector.
func (r *Rig) EraseByVector(t *testing.T, of catalog.File, rows ...uint64) {
	t.Helper()
	set := dv.NewRoaringPositionBitmap()
	for _, row := range rows {
		set.Set(row)
	}
	blob, err := dv.SerializeDV(set)
	require.NoError(t, err)
	var content bytes.Buffer
	w, err := puffin.NewWriter(&content)
	require.NoError(t, err)
	written, err := w.AddBlob(puffin.BlobMetadataInput{
		Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1, Fields: []int32{},
		Properties: map[string]string{"referenced-data-file": of.Location, "cardinality": strconv.Itoa(len(rows))},
	}, blob)
	require.NoError(t, err)
	require.NoError(t, w.Finish())
	r.erase(t, of, erasing{content: content.Bytes(), rows: len(rows), kind: iceberg.EntryContentPosDeletes, puffin: true, build: func(b *iceberg.DataFileBuilder) {
		b.ReferencedDataFile(of.Location).ContentOffset(written.Offset).ContentSizeInBytes(written.Length)
	}})
}

// FileOf returns a Parquet file with columns of the given field ids.
func (r *Rig) FileOf(t *testing.T, names []string, ids []int, columns ...arrow.Array) []byte {
	t.Helper()
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: columns[i].DataType(), Metadata: arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(ids[i])})}
	}
	schema := arrow.NewSchema(fields, nil)
	rows, err := array.NewRecordReader(schema, []arrow.RecordBatch{array.NewRecordBatch(schema, columns, int64(columns[0].Len()))})
	require.NoError(t, err)
	var content bytes.Buffer
	require.NoError(t, parquettest.Write(&content, rows, parquettest.Options{}))
	return content.Bytes()
}
