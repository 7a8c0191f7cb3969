package loader_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// parquetTable is a table of one Parquet file in memory, whose requests to storage are recorded.
type parquetTable struct {
	tables *catalogtest.Memory
	store  *errstore.Store
	stored int64 // bytes of the file
}

// newParquetTable writes rows in requests of five, in row groups of a number of rows and pages of about 128.
func newParquetTable(t *testing.T, rows, groupRows int) *parquetTable {
	t.Helper()
	const location, pageBytes = "mem:///ml.train/1.parquet", 1 << 10
	fields := []catalog.Field{
		{ID: 1, Name: "req", Type: arrow.PrimitiveTypes.Int64},
		{ID: 2, Name: "item", Type: arrow.PrimitiveTypes.Int64},
		{ID: 3, Name: "text", Type: arrow.BinaryTypes.String},
	}
	schema := arrow.NewSchema([]arrow.Field{fields[0].Arrow(), fields[1].Arrow(), fields[2].Arrow()}, nil)
	of := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer of.Release()
	for i := range rows {
		of.Field(0).(*array.Int64Builder).Append(int64(i / 5))
		of.Field(1).(*array.Int64Builder).Append(int64(i))
		of.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("%08d", i))
	}
	b := of.NewRecordBatch()
	defer b.Release()
	rdr, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	defer rdr.Release()
	var content bytes.Buffer
	require.NoError(t, parquettest.Write(&content, rdr, parquettest.Options{
		FieldIDs: []int{1, 2, 3}, RowGroupRows: int64(groupRows), PageBytes: pageBytes, Plain: true, Codec: parquettest.Uncompressed,
	}))
	files := storetest.NewMemory()
	files.Put(location, content.Bytes())
	p := &parquetTable{tables: catalogtest.NewMemory(), store: errstore.New(files), stored: int64(content.Len())}
	require.NoError(t, p.tables.AddTable("ml.train", fields, nil))
	_, err = p.tables.Append("ml.train", catalog.File{Location: location, Bytes: p.stored, Rows: int64(rows)})
	require.NoError(t, err)
	return p
}

// loader returns a loader of the table, and its scanner, given the scanner's other options.
func (p *parquetTable) loader(t *testing.T, options scan.Options) (*loader.Loader, *scan.Scanner) {
	t.Helper()
	options.Files = catalog.FromStore(p.store)
	scanner, err := scan.New(options)
	require.NoError(t, err)
	d := dataset.Dataset{Name: "d", Key: []string{"req"}, Training: dataset.Training{Table: "ml.train"}}
	return loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: p.tables, Budget: options.Budget,
		Share: func() joined.SharedReads { return scanner.Share() },
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
	}), scanner
}

// bytesRead returns the bytes that were requested from storage.
func (p *parquetTable) bytesRead() int64 {
	sum := int64(0)
	for _, q := range p.store.Requests() {
		sum += int64(q.Bytes)
	}
	return sum
}

// TestResumingDecodesLittle resumes in the middle of an epoch. Until the first batch is returned, at most one and a half
// windows are decoded, with what is decoded ahead of the next one, and a row before each section. The batch is
// the one after the cursor.
//
// spec: cursor-29
func TestResumingDecodesLittle(t *testing.T) {
	t.Parallel()
	const window, parts = 32_768, 2
	for i, rows := range []int{3 * window, 3*window - 12_000, 2*window + 1} {
		for _, groupRows := range []int{7000, 1 << 20} {
			if share > 1 && (i > 0 || groupRows > window) {
				continue // with the race detector: one of them
			}
			table := newParquetTable(t, rows, groupRows)
			for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
				q := one(1, 2048)
				q.Order, q.Shuffle, q.ShuffleWindow, q.ShuffleParts = dataset.Shuffled, shuffle, window, parts
				q.Columns = []dataset.Column{{Column: "item"}, {Column: "text"}}
				synctest.Test(t, func(t *testing.T) {
					l, _ := table.loader(t, scan.Options{})
					whole := open(t, l, q)
					defer whole.Release()
					for whole.Cursor().At[0].Window == 0 || whole.Cursor().At[0].Row == 0 {
						require.True(t, whole.Next())
					}
					resumed := q
					resumed.Cursor = dataset.Cursors{whole.Cursor()}
					l, scanner := table.loader(t, scan.Options{})
					s := open(t, l, resumed)
					defer s.Release()
					require.True(t, s.Next())
					synctest.Wait() // until nothing more is decoded ahead
					require.LessOrEqual(t, scanner.Decoded(), int64(window*3/2+2*parts), "%d rows in row groups of %d, %s", rows, groupRows, shuffle)
					require.True(t, whole.Next())
					require.Equal(t, scenario.Values(whole.RecordBatch()), scenario.Values(s.RecordBatch()))
				})
			}
		}
	}
}

// TestShuffledEpochsReadStoredBytesOnce reads whole epochs: parts within one row group share its bytes.
//
// spec: storage-14
func TestShuffledEpochsReadStoredBytesOnce(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	for _, groupRows := range []int{700, 6000, 1 << 20} {
		table := newParquetTable(t, rows, groupRows)
		footers, err := cache.New[*parquet.Footer](1 << 20)
		require.NoError(t, err)
		t.Cleanup(footers.Close)
		l, _ := table.loader(t, scan.Options{Footers: footers, ReadTail: scan.NoTail})
		for i, lanes := range []int{1, 1, 4} {
			for _, shuffle := range []dataset.Shuffle{dataset.ShuffleRequests, dataset.ShuffleRows} {
				q := one(lanes, 400)
				q.Order, q.Shuffle, q.ShuffleWindow = dataset.Shuffled, shuffle, 2000
				table.store.Reset()
				s := open(t, l, q)
				given := int64(0)
				for s.Next() {
					given += s.RecordBatch().NumRows()
				}
				require.NoError(t, s.Err())
				s.Release()
				require.EqualValues(t, rows, given)
				if i > 0 { // the first time reads the footer, too
					require.LessOrEqual(t, table.bytesRead(), table.stored*11/10, "%d lanes, row groups of %d, %s", lanes, groupRows, shuffle)
				}
			}
		}
	}
}

// TestStreamsStartOnce checks that the scans of a stream know until its second batch that it starts, and that a count never
// does.
//
// spec: cursor-29
func TestStreamsStartOnce(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	written{"ml.train", "id:long item:long", "bucket(1,id)", 100, func(i int) string { return fmt.Sprint(i/3, " ", i) }}.in(t, w)
	written{"features.f", "id:long v:long", "bucket(1,id)", 20, func(i int) string { return fmt.Sprint(i, " ", i) }}.in(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	var sources []plan.Source
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
		if source.Starting != nil { // otherwise it is a staging table, or a search for the border of a request
			sources = append(sources, source)
		}
		return w.Scan(ctx, source, columns)
	}})
	starting := func() bool {
		require.NotEmpty(t, sources)
		first := sources[0].Starting()
		for _, source := range sources {
			require.Equal(t, first, source.Starting())
		}
		return first
	}
	q := one(1, 10)
	q.Order, q.ShuffleWindow, q.Filter = dataset.Shuffled, 50, dataset.MustFilter("v >= 0 OR item >= 0")
	s := open(t, l, q)
	require.True(t, s.Next())
	require.True(t, starting())
	require.True(t, s.Next())
	require.False(t, starting())
	s.Release()

	sources = nil
	q.BatchRows, q.BatchRequests, q.Count = 0, 10, dataset.CountExact
	var let atomic.Int64
	_, err := count(t.Context(), l, q, &let)
	require.NoError(t, err)
	require.False(t, starting())
}
