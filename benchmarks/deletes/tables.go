package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/puffin"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	_ "modernc.org/sqlite" // the catalogs' files

	"github.com/penstock/penstock/internal/batch"
)

// variants are ways to delete rows of T: each is a table over T's own data files.
type variant string

const (
	none      variant = "none"
	vectors   variant = "vectors"
	positions variant = "positions"
	equality  variant = "equality"
)

func variants() []variant { return []variant{none, vectors, positions, equality} }

// share: one in this many rows is deleted.
const share = 10

const warehouse = "warehouse"

func open(home string) (*icesql.Catalog, *sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(home, "catalog.db")+"?_pragma=synchronous(OFF)")
	if err != nil {
		return nil, nil, err
	}
	tables, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + filepath.Join(home, warehouse)})
	return tables, db, err
}

// write creates the tables in a folder, over the data files of T.
func write(ctx context.Context, home, full string) error {
	if err := os.MkdirAll(home, 0o750); err != nil {
		return err
	}
	source, from, err := open(full)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // nothing was written
	t, err := source.LoadTable(ctx, icetable.Identifier{"bench", "t"})
	if err != nil {
		return err
	}
	planned, err := t.Scan().PlanFiles(ctx)
	if err != nil {
		return err
	}
	tables, db, err := open(home)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // each commit was written
	if err := tables.CreateNamespace(ctx, icetable.Identifier{"bench"}, nil); err != nil {
		return err
	}
	for _, v := range variants() {
		w := &writer{Rand: rand.New(rand.NewPCG(7, 11)), dir: filepath.Join(home, string(v)), variant: v}
		if err := w.table(ctx, tables, t, planned); err != nil {
			return fmt.Errorf("table %s: %w", v, err)
		}
	}
	return nil
}

// writer writes the deletes of one table.
type writer struct {
	*rand.Rand
	dir     string
	variant variant
	spec    iceberg.PartitionSpec
}

func (w *writer) table(ctx context.Context, tables *icesql.Catalog, t *icetable.Table, planned []icetable.FileScanTask) error {
	version := "2"
	if w.variant == vectors {
		version = "3"
	}
	spec := t.Spec()
	made, err := tables.CreateTable(ctx, icetable.Identifier{"bench", string(w.variant)}, t.Schema(),
		icecatalog.WithPartitionSpec(&spec), icecatalog.WithProperties(iceberg.Properties{icetable.PropertyFormatVersion: version}))
	if err != nil {
		return err
	}
	if !made.Schema().Equals(t.Schema()) {
		return fmt.Errorf("its columns have different ids than T's: %s and %s", made.Schema(), t.Schema())
	}
	if err := os.MkdirAll(w.dir, 0o750); err != nil {
		return err
	}
	w.spec = made.Spec()
	var data, deletes []iceberg.DataFile
	for _, scanned := range planned {
		f := scanned.File
		b, err := iceberg.NewDataFileBuilder(w.spec, iceberg.EntryContentData, f.FilePath(), iceberg.ParquetFile, f.Partition(), nil, nil, f.Count(), f.FileSizeBytes())
		if err != nil {
			return err
		}
		data = append(data, b.Build())
		d, err := w.deletes(ctx, f, len(data))
		if err != nil {
			return err
		}
		if d != nil {
			deletes = append(deletes, d)
		}
	}
	tx := made.NewTransaction()
	if err := tx.NewRowDelta(nil).AddRows(data...).Commit(ctx); err != nil {
		return err
	}
	if made, err = tx.Commit(ctx); err != nil || len(deletes) == 0 {
		return err
	}
	tx = made.NewTransaction()
	if err := tx.NewRowDelta(nil).AddDeletes(deletes...).Commit(ctx); err != nil {
		return err
	}
	_, err = tx.Commit(ctx)
	return err
}

// deletes writes a delete file for one row in ten of a data file; nil if the variant has no deletes.
func (w *writer) deletes(ctx context.Context, f iceberg.DataFile, number int) (iceberg.DataFile, error) {
	var rows []int64
	for row := range f.Count() {
		if w.IntN(share) == 0 {
			rows = append(rows, row)
		}
	}
	path := filepath.Join(w.dir, fmt.Sprintf("%d.deletes", number))
	switch w.variant {
	case vectors:
		return w.vector(f, rows, path)
	case positions:
		paths := array.NewStringBuilder(memory.DefaultAllocator)
		for range rows {
			paths.Append(f.FilePath())
		}
		b, err := w.parquet(f, path, iceberg.EntryContentPosDeletes, columnOf("file_path", 2147483546, paths.NewArray()), columnOf("pos", 2147483545, longs(rows)))
		if err != nil {
			return nil, err
		}
		return b.ReferencedDataFile(f.FilePath()).Build(), nil
	case equality:
		ids, err := itemsOf(ctx, f, rows)
		if err != nil {
			return nil, err
		}
		b, err := w.parquet(f, path, iceberg.EntryContentEqDeletes, columnOf("item_id", 2, ids))
		if err != nil {
			return nil, err
		}
		return b.EqualityFieldIDs([]int{2}).Build(), nil
	case none:
	}
	return nil, nil //nolint:nilnil // the table has no deletes
}

// itemsOf returns the item ids of some rows of a file, which also occur in other rows.
func itemsOf(ctx context.Context, f iceberg.DataFile, rows []int64) (arrow.Array, error) {
	reader, err := os.Open(strings.TrimPrefix(f.FilePath(), "file://"))
	if err != nil {
		return nil, err
	}
	defer reader.Close() //nolint:errcheck // it is only read
	table, err := pqarrow.ReadTable(ctx, reader, parquet.NewReaderProperties(memory.DefaultAllocator), pqarrow.ArrowReadProperties{}, batch.Zeroed(memory.DefaultAllocator))
	if err != nil {
		return nil, err
	}
	defer table.Release()
	column := table.Column(table.Schema().FieldIndices("item_id")[0]).Data()
	out := array.NewInt64Builder(memory.DefaultAllocator)
	for _, row := range rows[:len(rows)/share] { // each is in many rows
		for _, chunk := range column.Chunks() {
			if n := int64(chunk.Len()); row < n {
				out.Append(chunk.(*array.Int64).Value(int(row)))
				break
			} else {
				row -= n
			}
		}
	}
	return out.NewArray(), nil
}

func longs(values []int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

// column is a column of a delete file.
type column struct {
	arrow.Field
	values arrow.Array
}

func columnOf(name string, id int, values arrow.Array) column {
	metadata := arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})
	return column{Field: arrow.Field{Name: name, Type: values.DataType(), Metadata: metadata}, values: values}
}

// parquet writes a delete file for a data file's partition.
func (w *writer) parquet(f iceberg.DataFile, path string, kind iceberg.ManifestEntryContent, columns ...column) (*iceberg.DataFileBuilder, error) {
	fields, values := make([]arrow.Field, len(columns)), make([]arrow.Array, len(columns))
	for i, c := range columns {
		fields[i], values[i] = c.Field, c.values
	}
	rows := array.NewRecordBatch(arrow.NewSchema(fields, nil), values, int64(values[0].Len()))
	var out bytes.Buffer
	p, err := pqarrow.NewFileWriter(rows.Schema(), &out, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	if err := p.Write(rows); err != nil {
		return nil, err
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return iceberg.NewDataFileBuilder(w.spec, kind, "file://"+path, iceberg.ParquetFile, f.Partition(), nil, nil, rows.NumRows(), int64(out.Len()))
}

func (w *writer) vector(f iceberg.DataFile, rows []int64, path string) (iceberg.DataFile, error) {
	set := dv.NewRoaringPositionBitmap()
	for _, row := range rows {
		set.Set(uint64(row))
	}
	blob, err := dv.SerializeDV(set)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	p, err := puffin.NewWriter(&out)
	if err != nil {
		return nil, err
	}
	meta, err := p.AddBlob(puffin.BlobMetadataInput{
		Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1, Fields: []int32{},
		Properties: map[string]string{"cardinality": strconv.Itoa(len(rows)), "referenced-data-file": f.FilePath()},
	}, blob)
	if err == nil {
		err = p.Finish()
	}
	if err == nil {
		err = os.WriteFile(path, out.Bytes(), 0o600)
	}
	if err != nil {
		return nil, err
	}
	b, err := iceberg.NewDataFileBuilder(w.spec, iceberg.EntryContentPosDeletes, "file://"+path, iceberg.PuffinFile, f.Partition(), nil, nil, int64(len(rows)), int64(out.Len()))
	if err != nil {
		return nil, err
	}
	return b.ReferencedDataFile(f.FilePath()).ContentOffset(meta.Offset).ContentSizeInBytes(meta.Length).Build(), nil
}
