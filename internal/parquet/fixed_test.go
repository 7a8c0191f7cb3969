package parquet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// randomNulls reports for each row whether it is null: in runs and alone.
func randomNulls(r *rand.Rand, n int, nulls float64) []bool {
	out, null := make([]bool, n), false
	for i := range out {
		if r.IntN(20) == 0 {
			null = r.Float64() < nulls
		}
		out[i] = null
	}
	return out
}

// appendFixed appends a decimal of at most 128 bits, or bytes.
func appendFixed(b array.Builder, r *rand.Rand, distinct int) {
	switch b := b.(type) {
	case *array.Decimal128Builder:
		kind := b.Type().(*arrow.Decimal128Type)
		v := decimal128.FromI64(int64(r.IntN(distinct)))
		for range kind.Precision / 5 { // up to the digits of the type
			v = v.Mul(decimal128.FromI64(99_991))
		}
		if !v.FitsInPrecision(kind.Precision) {
			v = decimal128.FromI64(int64(r.IntN(10)))
		}
		if r.IntN(2) == 0 {
			v = v.Negate()
		}
		b.Append(v)
	case *array.FixedSizeBinaryBuilder:
		width := b.Type().(*arrow.FixedSizeBinaryType).ByteWidth
		v := fmt.Appendf(nil, "%0*d", width, r.IntN(distinct))
		b.Append(v[len(v)-width:])
	}
}

// fixedBatch makes n rows of required and optional columns of decimals of each number of digits, or
// of bytes of several widths, and a column of lists, with the given number of distinct values, and
// with nulls in runs and alone.
func fixedBatch(r *rand.Rand, n, distinct int, nulls float64, kinds []arrow.DataType) arrow.RecordBatch {
	var fields []arrow.Field
	for i, kind := range kinds {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("required", i), Type: kind}, nullable(fmt.Sprint("optional", i), kind))
		if i%5 == 0 {
			fields = append(fields, nullable(fmt.Sprint("list", i), list(kind, i%2 == 0)))
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i, f := range fields {
		for _, null := range randomNulls(r, n, nulls) {
			if f.Nullable && null {
				b.Field(i).AppendNull()
				continue
			}
			lists, ok := b.Field(i).(*array.ListBuilder)
			if !ok {
				appendFixed(b.Field(i), r, distinct)
				continue
			}
			lists.Append(true)
			for range r.IntN(4) {
				if f.Type.(*arrow.ListType).ElemField().Nullable && r.IntN(3) == 0 {
					lists.ValueBuilder().AppendNull()
				} else {
					appendFixed(lists.ValueBuilder(), r, distinct)
				}
			}
		}
	}
	return b.NewRecordBatch()
}

func decimals() (out []arrow.DataType) {
	for digits := int32(1); digits <= 38; digits++ {
		out = append(out, &arrow.Decimal128Type{Precision: digits, Scale: digits / 3})
	}
	return out
}

func fixedSizes() (out []arrow.DataType) {
	for _, width := range []int{1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40} {
		out = append(out, &arrow.FixedSizeBinaryType{ByteWidth: width})
	}
	return out
}

// TestFixedColumns reads decimals, as integers and as bytes of each width, and fixed-length bytes,
// in files written by the library, in batches of any length: plain pages, dictionaries, both in one
// column, pages of both versions.
func TestFixedColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	rounds := 12
	if os.Getenv("PENSTOCK_LONG") != "" {
		rounds = 240
	}
	for i := 0; i < rounds; i += share {
		n, kinds := 1+r.IntN(1500), decimals()
		if i%2 == 1 {
			kinds = fixedSizes()
		}
		want := fixedBatch(r, n, 1+r.IntN(3*n), []float64{0, 0.1, 0.5, 1}[i/2%4], kinds)
		opts := parquettest.Options{
			Plain: i/2%3 == 0, PageV2: i/3%2 == 0, PageBytes: int64(64 + r.IntN(4096)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5), DecimalAsInteger: i%4 == 2,
		}
		fields := ids(int(want.NumCols()))
		f := open(t, write(t, opts, want))
		got := mustRead(t, f, parquet.ReadOptions{
			Fields: fields, Schema: want.Schema(), BatchRows: 1 + r.IntN(700), Cores: cores.New(1 + i%2), RunBytes: []int64{0, 1000}[i%2],
		})
		requireEqual(t, want, got)
		got.Release()
		want.Release()
	}
}

// refooted returns a file whose footer is changed.
func refooted(t testing.TB, content []byte, change func(*metadata.FileMetaData)) []byte {
	t.Helper()
	rdr, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	meta := rdr.MetaData()
	change(meta)
	var footer bytes.Buffer
	_, err = meta.WriteTo(&footer, nil)
	require.NoError(t, err)
	pages := content[:int64(len(content))-8-footerBytes(content)]
	return append(bytes.Clone(pages), withFooter(footer.Bytes())[4:]...)
}

// withDigits changes the digits of the only column of a file, whose values stay as they are.
func withDigits(t *testing.T, content []byte, digits int32) []byte {
	t.Helper()
	return refooted(t, content, func(meta *metadata.FileMetaData) {
		meta.FileMetaData.Schema[1].Precision = &digits
		meta.FileMetaData.Schema[1].LogicalType.DECIMAL.Precision = digits
		for _, group := range meta.RowGroups {
			group.Columns[0].MetaData.Statistics = nil
		}
	})
}

// asOfSpark adds BIT_PACKED to the encodings of all chunks, as parquet-mr does.
func asOfSpark(t testing.TB, content []byte) []byte {
	t.Helper()
	return refooted(t, content, func(meta *metadata.FileMetaData) {
		for _, group := range meta.RowGroups {
			for _, c := range group.Columns {
				c.MetaData.Encodings = append(c.MetaData.Encodings, bitPacked)
			}
		}
	})
}

const bitPacked = 4

// TestDecimalsBeyondTheirDigits reads values with more digits than the file declares: they are
// returned as stored, unless the table's type has fewer digits than the file's.
func TestDecimalsBeyondTheirDigits(t *testing.T) {
	sc := func(digits int32) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{nullable("c", &arrow.Decimal128Type{Precision: digits})}, nil)
	}
	rows := func(digits int32) arrow.RecordBatch { return column(t, sc(digits), `["30000","-32768","7"]`) }
	for _, integers := range []bool{false, true} {
		f := open(t, withDigits(t, write(t, parquettest.Options{DecimalAsInteger: integers}, rows(9)), 4))
		for _, digits := range []int32{4, 38} {
			got := mustRead(t, f, parquet.ReadOptions{Fields: ids(1), Schema: sc(digits)})
			require.Equal(t, rows(9).Column(0).(*array.Decimal128).Values(), got.Column(0).(*array.Decimal128).Values())
		}
		_, err := read(t, f, parquet.ReadOptions{Fields: ids(1), Schema: sc(3)})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "holds 30000, which does not fit in decimal(3, 0)")
	}
}

// TestColumnsOfThisPackage expects that the library decodes only what is nested, booleans, and
// numbers as deltas: not the other columns of Spark, whose chunks list the encoding of levels that
// they do not have.
func TestColumnsOfThisPackage(t *testing.T) {
	decimal := func(digits, scale int32) arrow.DataType {
		return &arrow.Decimal128Type{Precision: digits, Scale: scale}
	}
	spark := arrow.NewSchema([]arrow.Field{
		nullable("int", arrow.PrimitiveTypes.Int32),
		{Name: "long", Type: arrow.PrimitiveTypes.Int64},
		nullable("text", arrow.BinaryTypes.String),
		nullable("large", decimal(38, 4)), nullable("flag", arrow.FixedWidthTypes.Boolean), nullable("double", arrow.PrimitiveTypes.Float64),
		nullable("inner", arrow.StructOf(nullable("large", decimal(30, 4)))), nullable("list", list(decimal(20, 2), true)),
		{Name: "required", Type: decimal(25, 1)},
		nullable("long text", arrow.BinaryTypes.String),
	}, nil)
	stamp := &arrow.TimestampType{Unit: arrow.Microsecond}
	int96 := arrow.NewSchema([]arrow.Field{nullable("at", stamp), {Name: "few", Type: stamp}}, nil)
	for name, c := range map[string]struct {
		schema  *arrow.Schema
		library string // names of the columns that the library decodes
	}{
		"spark-lz4-v1": {spark, "flag inner"}, "spark-lz4-v2": {spark, "int long flag inner"},
		"spark-int96": {int96, ""}, "spark-int96-v2": {int96, ""},
	} {
		content, err := os.ReadFile("testdata/" + name + ".parquet")
		require.NoError(t, err)
		rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{Fields: ids(c.schema.NumFields()), Schema: c.schema})
		require.NoError(t, err)
		require.True(t, rdr.Next(), "%v", rdr.Err())
		require.Equal(t, strings.Fields(c.library), rdr.OfLibrary(), name)
		rdr.Release()
	}
}

// FuzzFixedColumns changes bytes of a file: reading returns the rows or an error, and
// frees all memory.
func FuzzFixedColumns(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(400), byte(255), false)
	fuzzFlips(f, parquettest.Options{}, 79, func(*testing.T) arrow.RecordBatch {
		kinds := append(fixedSizes(), &arrow.Decimal128Type{Precision: 9}, &arrow.Decimal128Type{Precision: 20, Scale: 2})
		return fixedBatch(rand.New(rand.NewPCG(1, 1)), 300, 40, 0.3, kinds)
	})
}
