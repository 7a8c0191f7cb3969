package foreign_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// decodedTypes returns fields of all types that package parquet decodes for this package, and of lists
// of them, nullable and not.
func decodedTypes() *arrow.Schema {
	var out []arrow.Field
	for _, t := range []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32, &arrow.TimestampType{Unit: arrow.Microsecond}, arrow.FixedWidthTypes.Timestamp_us,
	} {
		for _, nullable := range []bool{false, true} {
			of := arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: nullable})
			for _, t := range []arrow.DataType{t, of} {
				out = append(out, arrow.Field{Name: fmt.Sprintf("c%d", len(out)), Type: t, Nullable: nullable})
			}
		}
	}
	return arrow.NewSchema(out, nil)
}

// appendRandom appends a random value or null to a column.
func appendRandom(rng *rand.Rand, to array.Builder, nullable bool) {
	if nullable && rng.IntN(5) == 0 {
		to.AppendNull()
		return
	}
	n := rng.IntN(1 + rng.IntN(300)) // some values repeat
	switch to := to.(type) {
	case *array.BooleanBuilder:
		to.Append(n%2 == 0)
	case *array.Int32Builder:
		to.Append(int32(n))
	case *array.Int64Builder:
		to.Append(int64(n) << 40)
	case *array.Float32Builder:
		to.Append(float32(n) / 3)
	case *array.Float64Builder:
		to.Append(float64(n) / 3)
	case *array.StringBuilder:
		to.Append(fmt.Sprint("text ", n))
	case *array.BinaryBuilder:
		to.Append(make([]byte, n))
	case *array.Date32Builder:
		to.Append(arrow.Date32(n))
	case *array.TimestampBuilder:
		to.Append(arrow.Timestamp(n) << 30)
	case *array.ListBuilder:
		to.Append(true)
		for range rng.IntN(4) {
			appendRandom(rng, to.ValueBuilder(), to.Type().(*arrow.ListType).ElemField().Nullable)
		}
	}
}

// writeRandom writes 1,000 random rows in several row groups.
func writeRandom(t *testing.T, rng *rand.Rand, schema *arrow.Schema, properties ...parquet.WriterProperty) string {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for range 1000 {
		for i, f := range schema.Fields() {
			appendRandom(rng, b.Field(i), f.Nullable)
		}
	}
	path := filepath.Join(t.TempDir(), "rows.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema, file, parquet.NewWriterProperties(append(properties, parquet.WithMaxRowGroupLength(300), parquet.WithDataPageSize(500))...), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	return path
}

// remoteFile is a local file that is opened as if it were on remote storage, so that the library
// decodes it.
type remoteFile struct {
	*os.File
	size int64
}

func (f remoteFile) Size() int64 { return f.size }

func openRemote(_ context.Context, path string) (foreign.Content, error) {
	f, err := os.Open(path) //nolint:gosec // a test's own file
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	return remoteFile{f, stat.Size()}, err
}

// allRows returns the rows of files, and whether package parquet decodes the first one.
func allRows(t *testing.T, files []string, o foreign.Options) (arrow.Table, bool) {
	t.Helper()
	ctx, entered := o.Budget.Enter(t.Context(), "test")
	defer entered.Release()
	r, err := foreign.Open(ctx, files, o)
	require.NoError(t, err)
	var rows []arrow.RecordBatch
	decoded := r.IsDecoded()
	for r.Next() {
		r.RecordBatch().Retain()
		rows = append(rows, r.RecordBatch())
	}
	require.NoError(t, r.Err())
	out := array.NewTableFromRecords(r.Schema(), rows)
	r.Release()
	require.Zero(t, o.Budget.Used())
	require.LessOrEqual(t, o.Budget.Peak(), o.Budget.Limit())
	return out, decoded
}

// Package parquet and the library decode the same rows from files of any encoding and codec, and
// with any memory.
//
// spec: stage-46
func TestDecodedRowsAreThoseOfTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	schema := decodedTypes()
	fields := schema.Fields()
	turned := make([]arrow.Field, len(fields))
	for i, f := range fields {
		turned[len(fields)-1-i] = f
	}
	for name, properties := range map[string][]parquet.WriterProperty{
		"dictionaries": {parquet.WithCompression(compress.Codecs.Snappy)},
		"plain":        {parquet.WithDictionaryDefault(false), parquet.WithCompression(compress.Codecs.Zstd)},
		"second pages": {parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithVersion(parquet.V2_LATEST)},
	} {
		files := []string{writeRandom(t, rng, schema, properties...), writeRandom(t, rng, arrow.NewSchema(turned, nil), properties...)}
		for _, file := range files { // the schema of the first file counts
			want, decoded := allRows(t, []string{file, files[0]}, foreign.Options{Budget: budget.New(1 << 30), Open: openRemote})
			require.False(t, decoded, name)
			require.EqualValues(t, 2000, want.NumRows())
			for _, bytes := range []int64{1 << 30, 64 << 20, 8 << 20} {
				got, decoded := allRows(t, []string{file, files[0]}, foreign.Options{Budget: budget.New(bytes), Threads: 2})
				require.True(t, decoded, name)
				require.True(t, array.TableEqual(want, got), "%s, with %d bytes", name, bytes)
			}
		}
	}
}

// The library decodes files that have a column of another type, or several columns of a name.
func TestOtherFilesAreReadByTheLibrary(t *testing.T) {
	number := arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64}
	for name, schema := range map[string]*arrow.Schema{
		"struct":         arrow.NewSchema([]arrow.Field{number, {Name: "s", Type: arrow.StructOf(number)}}, nil),
		"twice the name": arrow.NewSchema([]arrow.Field{number, number}, nil),
		"narrow":         arrow.NewSchema([]arrow.Field{number, {Name: "i", Type: arrow.PrimitiveTypes.Int8}}, nil),
		"milliseconds":   arrow.NewSchema([]arrow.Field{number, {Name: "t", Type: &arrow.TimestampType{Unit: arrow.Millisecond}}}, nil),
	} {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range schema.NumFields() {
			b.Field(i).AppendEmptyValue()
		}
		path := filepath.Join(t.TempDir(), "rows.parquet")
		file, err := os.Create(path) //nolint:gosec // a test's own folder
		require.NoError(t, err)
		w, err := pqarrow.NewFileWriter(schema, file, nil, pqarrow.DefaultWriterProps())
		require.NoError(t, err)
		require.NoError(t, w.Write(b.NewRecordBatch()))
		require.NoError(t, w.Close())
		rows, decoded := allRows(t, []string{path}, foreign.Options{Budget: budget.New(64 << 20)})
		require.False(t, decoded, name)
		require.EqualValues(t, 1, rows.NumRows(), name)
	}
}

// BenchmarkRead reads lists of 50 numbers, as package parquet and as the library decode them.
func BenchmarkRead(b *testing.B) {
	const rows, items = 20_000, 50
	rng := rand.New(rand.NewPCG(1, 2))
	schema := arrow.NewSchema([]arrow.Field{{Name: "history", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}}, nil)
	build := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	history := build.Field(0).(*array.ListBuilder)
	for range rows {
		history.Append(true)
		for range items {
			history.ValueBuilder().(*array.Int64Builder).Append(int64(rng.Uint64()))
		}
	}
	path := filepath.Join(b.TempDir(), "rows.parquet")
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(b, err)
	w, err := pqarrow.NewFileWriter(schema, file, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy)), pqarrow.DefaultWriterProps())
	require.NoError(b, err)
	require.NoError(b, w.Write(build.NewRecordBatch()))
	require.NoError(b, w.Close())
	for name, open := range map[string]func(context.Context, string) (foreign.Content, error){"decoded": nil, "library": openRemote} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := foreign.Open(b.Context(), []string{path}, foreign.Options{Open: open})
				require.NoError(b, err)
				count := int64(0)
				for r.Next() {
					count += r.RecordBatch().NumRows()
				}
				require.NoError(b, r.Err())
				r.Release()
				require.EqualValues(b, rows, count)
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
