package joined_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/stream"
)

const (
	featureTables = 20
	featureRows   = 5000
	// featureColumn is a column of one feature table, which queries ask for.
	featureColumn = "v7"
)

// featureFiles is a training table and feature tables in Parquet files in memory, one file each. The
// last feature table has a key of its own.
type featureFiles struct {
	tables *catalogtest.Memory
	store  *errstore.Store
	chunks map[string]map[string]int64 // by location and column: the stored size of its chunks
}

func newFeatureFiles(t *testing.T) *featureFiles {
	t.Helper()
	files := storetest.NewMemory()
	f := &featureFiles{tables: catalogtest.NewMemory(), store: errstore.New(files), chunks: map[string]map[string]int64{}}
	f.add(t, files, "ml.train", "req", "item", "other")
	for i := range featureTables {
		f.add(t, files, fmt.Sprintf("features.f%d", i), "key", fmt.Sprintf("v%d", i), fmt.Sprintf("w%d", i))
	}
	return f
}

// add writes a table of integers, in which row i has i in each column.
func (f *featureFiles) add(t *testing.T, files *storetest.Memory, name string, columns ...string) {
	t.Helper()
	var fields []catalog.Field
	var schema []arrow.Field
	var ids []int
	for i, column := range columns {
		field := catalog.Field{ID: i + 1, Name: column, Type: arrow.PrimitiveTypes.Int64}
		fields, schema, ids = append(fields, field), append(schema, field.Arrow()), append(ids, field.ID)
	}
	of := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(schema, nil))
	defer of.Release()
	for row := range featureRows {
		for i := range columns {
			of.Field(i).(*array.Int64Builder).Append(int64(row))
		}
	}
	b := of.NewRecordBatch()
	defer b.Release()
	rows, err := array.NewRecordReader(b.Schema(), []arrow.RecordBatch{b})
	require.NoError(t, err)
	defer rows.Release()
	var content bytes.Buffer
	require.NoError(t, parquettest.Write(&content, rows, parquettest.Options{FieldIDs: ids, RowGroupRows: 1500}))
	location := "mem:///" + name + "/1.parquet"
	files.Put(location, content.Bytes())
	require.NoError(t, f.tables.AddTable(name, fields, nil))
	_, err = f.tables.Append(name, catalog.File{Location: location, Bytes: int64(content.Len()), Rows: featureRows})
	require.NoError(t, err)
	f.chunks[location] = chunkSizes(t, content.Bytes())
}

// chunkSizes returns the stored size of the chunks of each column of a Parquet file.
func chunkSizes(t *testing.T, content []byte) map[string]int64 {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	sizes := map[string]int64{}
	for g := range r.NumRowGroups() {
		for c := range r.MetaData().Schema.NumColumns() {
			chunk, err := r.MetaData().RowGroup(g).ColumnChunk(c)
			require.NoError(t, err)
			sizes[r.MetaData().Schema.Column(c).Name()] += chunk.TotalCompressedSize()
		}
	}
	return sizes
}

// dataset joins some of the feature tables.
func (f *featureFiles) dataset(features ...int) dataset.Dataset {
	d := dataset.Dataset{Name: "d", Key: []string{"req"}, Training: dataset.Training{Table: "ml.train"}}
	for _, i := range features {
		key := dataset.KeyPair{Training: "req", Staging: "key"}
		if i == featureTables-1 {
			key.Training = "other"
		}
		d.Staging = append(d.Staging, dataset.Staging{
			Table: fmt.Sprintf("features.f%d", i), Name: fmt.Sprintf("f%d", i), Key: []dataset.KeyPair{key},
			Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
		})
	}
	return d.Defaults()
}

// read returns the requests to storage for a query of columns, the rows, and the report.
func (f *featureFiles) read(t *testing.T, d dataset.Dataset, columns ...string) ([]errstore.Request, []string, stream.Report) {
	t.Helper()
	f.store.Reset()
	shards, err := f.query(t, d, nil, columns...)
	require.NoError(t, err)
	requests := slices.Clone(f.store.Requests())
	slices.SortFunc(requests, func(a, b errstore.Request) int {
		return cmp.Or(strings.Compare(a.Location, b.Location), cmp.Compare(a.Offset, b.Offset), a.Bytes-b.Bytes)
	})
	return requests, scenario.Texts(shards[0].Rows()), shards[0].Report
}

// query reads columns, of a query that change may change.
func (f *featureFiles) query(t *testing.T, d dataset.Dataset, change func(*dataset.Query), columns ...string) ([]scenario.Shard, error) {
	t.Helper()
	scanner, err := scan.New(scan.Options{Files: catalogtest.FromStore(f.store), ReadTail: scan.NoTail})
	require.NoError(t, err)
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d}, Catalog: f.tables,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
	})
	q := loadertest.OneShard(1, 500)
	for _, name := range columns {
		q.Columns = append(q.Columns, dataset.Column{Column: name})
	}
	if change != nil {
		change(&q)
	}
	return scenario.Read(t.Context(), l, q)
}

// TestOnlyWhatIsAskedForIsRead reads a column of one of 20 feature tables. The requests to storage are
// those of a dataset with that table alone, and bytes_read is the size of the column chunks of the key and
// the column. A training key that only other tables need is not read.
//
// spec: resolve-87, resolve-89, join-106, join-108
func TestOnlyWhatIsAskedForIsRead(t *testing.T) {
	t.Parallel()
	f := newFeatureFiles(t)
	var all []int
	for i := range featureTables {
		all = append(all, i)
	}
	want, rows, _ := f.read(t, f.dataset(7), "item", featureColumn)
	require.NotEmpty(t, want)
	got, same, report := f.read(t, f.dataset(all...), "item", featureColumn)
	require.Equal(t, want, got)
	require.Equal(t, rows, same)
	require.Len(t, rows, featureRows)
	require.Len(t, report.Unread, featureTables-1)
	require.Equal(t, []string{"f7"}, slices.Collect(maps.Keys(report.Staging)))
	sizes := f.chunks["mem:///features.f7/1.parquet"]
	require.Equal(t, sizes["key"]+sizes[featureColumn], report.Staging["f7"].BytesRead)
	require.InDelta(t, 1, report.Staging["f7"].Amplification, 0)

	training, _, report := f.read(t, f.dataset(all...), "item")
	require.Empty(t, report.Staging)
	require.Len(t, report.Unread, featureTables)
	without, _, _ := f.read(t, f.dataset(), "item")
	require.Equal(t, without, training)
	alone, _, _ := f.read(t, f.dataset(featureTables-1), "item", fmt.Sprintf("v%d", featureTables-1))
	read := func(requests []errstore.Request) (bytes int) {
		for _, r := range requests {
			if strings.Contains(r.Location, "/ml.train/") {
				bytes += r.Bytes
			}
		}
		return bytes
	}
	require.Less(t, read(training), read(alone), "a training key is read if a table is joined by it")
}

// TestKeysThatAreReadAreChecked has a training file whose rows are of another bucket than its manifest says. A stream that reads
// the key, for a join or a filter, or to return it, fails. Others do not.
//
// spec: resolve-8, resolve-89
func TestKeysThatAreReadAreChecked(t *testing.T) {
	t.Parallel()
	f := newFeatureFiles(t)
	table, err := f.tables.Table(t.Context(), "ml.train", dataset.Ref{})
	require.NoError(t, err)
	listed, err := f.tables.Files(t.Context(), table, nil, nil)
	require.NoError(t, err)
	wrong := catalogtest.NewMemory()
	spec := catalog.Spec{{ID: 1000, Source: 1, Name: "bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}}}
	require.NoError(t, wrong.AddTable("ml.train", table.Fields, map[int]catalog.Spec{0: spec}))
	listed[0].Partition = []any{int64(3)}
	_, err = wrong.Append("ml.train", listed[0])
	require.NoError(t, err)
	feature, err := f.tables.Table(t.Context(), "features.f7", dataset.Ref{})
	require.NoError(t, err)
	files, err := f.tables.Files(t.Context(), feature, nil, nil)
	require.NoError(t, err)
	require.NoError(t, wrong.AddTable("features.f7", feature.Fields, nil))
	_, err = wrong.Append("features.f7", files[0])
	require.NoError(t, err)
	f.tables = wrong
	for name, c := range map[string]struct {
		columns []string
		change  func(*dataset.Query)
		notices bool
	}{
		"a join":       {columns: []string{"item", featureColumn}, notices: true},
		"a column":     {columns: []string{"req"}, notices: true},
		"a filter":     {columns: []string{"item"}, change: func(q *dataset.Query) { q.Filter = datasettest.Filter("req >= 0") }, notices: true},
		"other values": {columns: []string{"item", "other"}},
	} {
		shards, err := f.query(t, f.dataset(7), c.change, c.columns...)
		if c.notices {
			require.Equal(t, fault.Corrupt, fault.KindOf(err), name)
			require.ErrorContains(t, err, "which belongs to bucket", name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, shards[0].Rows(), featureRows, name)
	}
}
