package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite" // the catalog's file

	"github.com/penstock/penstock/internal/bucket"
)

const (
	database = "catalog.db"
	keyName  = "request_id"
	// recordRows is the number of rows that are generated at a time, and of each row group.
	recordRows = 1 << 17
)

// shape describes a table: the number of requests, the rows of each, and the columns beside the
// key. Equal shapes give equal tables.
type shape struct {
	name     string
	requests int // their ids are the same in every table
	each     int // rows of a request, adjacent
	buckets  int // of the key; 0: no partitions
	columns  []drawn
}

// warehouse writes Iceberg tables into a folder.
type warehouse struct {
	home   string
	db     *sql.DB
	tables *icesql.Catalog
}

// newWarehouse creates a folder with an empty catalog. The caller closes it.
func newWarehouse(ctx context.Context, home string) (*warehouse, error) {
	if err := os.MkdirAll(home, 0o750); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(home, database)+"?_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	w := &warehouse{home: home, db: db}
	if w.tables, err = icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + home}); err == nil {
		err = w.tables.CreateNamespace(ctx, icetable.Identifier{"bench"}, nil)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return w, nil
}

func (w *warehouse) close() error { return w.db.Close() }

// configure writes the configuration of a server with the training and staging table of each
// dataset.
func (w *warehouse) configure(datasets ...[3]string) error {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "catalogs:\n  default:\n    type: sql\n    uri: \"sqlite:///%s\"\n    warehouse: \"file://%s\"\ndatasets:\n", filepath.Join(w.home, database), w.home)
	for _, d := range datasets {
		_, _ = fmt.Fprintf(&text, "  %s:\n    training: {table: bench.%s}\n    key: [%s]\n    staging:\n      - {table: bench.%s, name: features}\n", d[0], d[1], keyName, d[2])
	}
	return os.WriteFile(filepath.Join(w.home, "penstock.yaml"), []byte(text.String()), 0o600)
}

// create creates an empty table.
func (w *warehouse) create(ctx context.Context, s shape) (*icetable.Table, error) {
	fields := []iceberg.NestedField{{ID: 1, Name: keyName, Type: iceberg.PrimitiveTypes.Int64, Required: true}}
	for i, c := range s.columns {
		// The ids of list elements follow those of all columns.
		fields = append(fields, iceberg.NestedField{ID: i + 2, Name: c.name, Type: c.iceberg(len(s.columns) + i + 2)})
	}
	spec := iceberg.NewPartitionSpec()
	if s.buckets > 0 {
		spec = iceberg.NewPartitionSpec(iceberg.PartitionField{
			SourceIDs: []int{1}, FieldID: 1000, Name: keyName + "_bucket", Transform: iceberg.BucketTransform{NumBuckets: s.buckets},
		})
	}
	return w.tables.CreateTable(ctx, icetable.Identifier{"bench", s.name}, iceberg.NewSchema(0, fields...), icecatalog.WithPartitionSpec(&spec))
}

// write creates a table with rows: one file for each bucket.
func (w *warehouse) write(ctx context.Context, s shape) error {
	table, err := w.create(ctx, s)
	if err != nil {
		return err
	}
	return w.fill(ctx, table, s)
}

// append adds the rows of another shape with the same columns and buckets to a table.
func (w *warehouse) append(ctx context.Context, to, rows shape) error {
	table, err := w.tables.LoadTable(ctx, icetable.Identifier{"bench", to.name})
	if err != nil {
		return err
	}
	return w.fill(ctx, table, rows)
}

// fill commits files with the rows of a shape.
func (w *warehouse) fill(ctx context.Context, table *icetable.Table, s shape) error {
	keys, err := s.keys()
	if err != nil {
		return err
	}
	schema, err := icetable.SchemaToArrowSchema(table.Schema(), nil, true, false)
	if err != nil {
		return err
	}
	var added []iceberg.DataFile
	for i, requests := range keys {
		path := w.path(s, i)
		if err := s.file(path, schema, requests); err != nil {
			return err
		}
		file, err := s.entry(table.Spec(), path, i, int64(len(requests)*s.each))
		if err != nil {
			return err
		}
		added = append(added, file)
	}
	return w.commit(ctx, table, added)
}

// commit adds data files to a table.
func (w *warehouse) commit(ctx context.Context, table *icetable.Table, added []iceberg.DataFile) error {
	change := table.NewTransaction()
	if err := change.ReplaceDataFilesWithDataFiles(ctx, nil, added, nil, icetable.WithoutAutoNameMapping()); err != nil {
		return err
	}
	_, err := change.Commit(ctx)
	return err
}

// path returns the path of a bucket's file.
func (w *warehouse) path(s shape, i int) string {
	return filepath.Join(w.home, "files", fmt.Sprintf("%s-%d.parquet", s.name, i))
}

// keys returns the request ids of each bucket, in the order in which the requests were logged.
func (s shape) keys() ([][]int64, error) {
	b := array.NewInt64Builder(arrowMemory())
	defer b.Release()
	for r := range s.requests {
		b.Append(int64(spread(uint64(r))))
	}
	all := b.NewInt64Array()
	defer all.Release()
	out := make([][]int64, max(1, s.buckets))
	buckets, err := bucket.Array(nil, all, len(out))
	if err != nil {
		return nil, err
	}
	for r, at := range buckets {
		out[at] = append(out[at], all.Value(r))
	}
	return out, nil
}

// file writes the rows of some requests.
func (s shape) file(path string, schema *arrow.Schema, requests []int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(false),
		parquet.WithMaxRowGroupLength(recordRows), parquet.WithVersion(parquet.V2_LATEST), parquet.WithStats(false))
	w, err := pqarrow.NewFileWriter(schema, out, properties, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	perRecord := max(1, min(recordRows, s.maxRows())/s.each)
	for len(requests) > 0 {
		n := min(perRecord, len(requests))
		rows := s.draw(schema, requests[:n])
		err := w.Write(rows)
		rows.Release()
		if err != nil {
			return err
		}
		requests = requests[n:]
	}
	return w.Close() // which closes the file
}

// entry is a data file's entry in a manifest.
func (s shape) entry(spec iceberg.PartitionSpec, path string, at int, rows int64) (iceberg.DataFile, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	partition := map[int]any{}
	if s.buckets > 0 {
		partition[1000] = int32(at)
	}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile, partition, nil, nil, rows, about.Size())
	if err != nil {
		return nil, err
	}
	return b.Build(), nil
}

// ensure creates the tables of a run unless they exist. The marker is written last and names all
// shapes, so an interrupted run, or one with other sizes, starts over.
func ensure(ctx context.Context, home string, sizes sizes) error {
	marker, want := filepath.Join(home, "finished"), fmt.Sprintf("%s with a warehouse %+v", home, sizes.tables())
	if text, err := os.ReadFile(marker); err == nil && string(text) == want {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	w, err := newWarehouse(ctx, home)
	if err != nil {
		return err
	}
	defer w.close() //nolint:errcheck // each commit was written
	var datasets [][3]string
	for _, pair := range sizes.tables() {
		for _, s := range pair {
			if err := w.write(ctx, s); err != nil {
				return fmt.Errorf("bench.%s: %w", s.name, err)
			}
		}
		datasets = append(datasets, [3]string{pair[0].name, pair[0].name, pair[1].name})
	}
	if err := w.configure(datasets...); err != nil {
		return err
	}
	return os.WriteFile(marker, []byte(want), 0o600)
}
