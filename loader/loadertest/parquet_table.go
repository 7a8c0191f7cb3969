package loadertest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
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

// ParquetTable is a table of one Parquet file in memory, whose requests to storage are recorded.
type ParquetTable struct {
	Tables *catalogtest.Memory
	Store  *errstore.Store
	Stored int64 // bytes of the file
}

// NewParquetTable writes rows in requests of five, in row groups of a number of rows and pages of about 128.
func NewParquetTable(t *testing.T, rows, groupRows int) *ParquetTable {
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
	p := &ParquetTable{Tables: catalogtest.NewMemory(), Store: errstore.New(files), Stored: int64(content.Len())}
	require.NoError(t, p.Tables.AddTable("ml.train", fields, nil))
	_, err = p.Tables.Append("ml.train", catalog.File{Location: location, Bytes: p.Stored, Rows: int64(rows)})
	require.NoError(t, err)
	return p
}

// Loader returns a loader of the table, and its scanner, given the scanner's other options.
func (p *ParquetTable) Loader(t *testing.T, options scan.Options) (*loader.Loader, *scan.Scanner) {
	t.Helper()
	options.Files = catalogtest.FromStore(p.Store)
	scanner, err := scan.New(options)
	require.NoError(t, err)
	d := dataset.Dataset{Name: "d", Key: []string{"req"}, Training: dataset.Training{Table: "ml.train"}}
	return loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: p.Tables, Budget: options.Budget,
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

// BytesRead returns the bytes that were requested from storage.
func (p *ParquetTable) BytesRead() int64 {
	sum := int64(0)
	for _, q := range p.Store.Requests() {
		sum += int64(q.Bytes)
	}
	return sum
}
