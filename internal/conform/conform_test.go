package conform_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
)

// The types before and after.
var (
	text, binary = arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	long         = arrow.PrimitiveTypes.Int64
	codes        = func(index, values arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: index, ValueType: values}
	}
	conversions = []struct{ from, to arrow.DataType }{
		{long, long},
		{arrow.BinaryTypes.LargeString, text},
		{arrow.BinaryTypes.LargeBinary, binary},
		{arrow.BinaryTypes.StringView, text},
		{arrow.BinaryTypes.BinaryView, binary},
		{codes(arrow.PrimitiveTypes.Int32, text), text},
		{codes(arrow.PrimitiveTypes.Uint8, text), text},
		{codes(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.Binary), binary},
		{codes(arrow.PrimitiveTypes.Int16, long), long},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}, arrow.FixedWidthTypes.Timestamp_us},
		{arrow.LargeListOf(long), arrow.ListOf(long)},
		{arrow.ListOf(arrow.BinaryTypes.LargeString), arrow.ListOf(text)},
		{arrow.LargeListOf(codes(arrow.PrimitiveTypes.Int32, text)), arrow.ListOf(text)},
		{arrow.FixedSizeListOf(3, long), arrow.ListOf(long)},
		{arrow.LargeListOf(arrow.FixedSizeListOf(2, long)), arrow.ListOf(arrow.ListOf(long))},
		{arrow.MapOf(arrow.BinaryTypes.LargeString, long), arrow.MapOf(text, long)},
		{
			arrow.StructOf(arrow.Field{Name: "a", Type: long, Nullable: true}, arrow.Field{Name: "b", Type: arrow.BinaryTypes.StringView, Nullable: true}),
			arrow.StructOf(arrow.Field{Name: "a", Type: long, Nullable: true}, arrow.Field{Name: "b", Type: text, Nullable: true}),
		},
	}
)

// fill appends a random value, and returns its text.
func fill(r *rand.Rand, b array.Builder) string {
	if r.IntN(5) == 0 {
		b.AppendNull()
		return "null"
	}
	n := int64(r.IntN(50))
	word := strings.Repeat("é", int(n)/3) + strconv.FormatInt(n, 10)
	switch b := b.(type) {
	case *array.LargeListBuilder:
		b.Append(true)
		return items(r, b.ValueBuilder())
	case *array.ListBuilder:
		b.Append(true)
		return items(r, b.ValueBuilder())
	case *array.FixedSizeListBuilder:
		b.Append(true)
		var all []string
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			all = append(all, fill(r, b.ValueBuilder()))
		}
		return strings.Join(all, ",")
	case *array.MapBuilder:
		b.Append(true)
		var all []string
		for i := range r.IntN(3) {
			b.KeyBuilder().(*array.LargeStringBuilder).Append(fmt.Sprint("key", i))
			all = append(all, fmt.Sprint("key", i, ":", fill(r, b.ItemBuilder())))
		}
		return strings.Join(all, ",")
	case *array.StructBuilder:
		b.Append(true)
		var all []string
		for i := range b.NumField() {
			all = append(all, fill(r, b.FieldBuilder(i)))
		}
		return strings.Join(all, "|")
	case *array.Int64Builder:
		b.Append(n)
		return strconv.FormatInt(n, 10)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
		return strconv.FormatInt(n, 10)
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(word); err != nil {
			return err.Error()
		}
		return word
	case *array.Int64DictionaryBuilder:
		if err := b.Append(n); err != nil {
			return err.Error()
		}
		return strconv.FormatInt(n, 10)
	case array.StringLikeBuilder:
		b.Append(word)
		return word
	case interface{ Append(v []byte) }:
		b.Append([]byte(word))
		return word
	}
	return "?"
}

func items(r *rand.Rand, b array.Builder) string {
	var all []string
	for range r.IntN(4) {
		all = append(all, fill(r, b))
	}
	return strings.Join(all, ",")
}

// read returns the text of a value of a converted column.
func read(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	var all []string
	switch a := a.(type) {
	case *array.Map:
		from, to := a.ValueOffsets(row)
		for i := from; i < to; i++ {
			all = append(all, read(a.Keys(), int(i))+":"+read(a.Items(), int(i)))
		}
	case *array.List:
		from, to := a.ValueOffsets(row)
		if row > 0 && a.IsNull(row-1) {
			if start, end := a.ValueOffsets(row - 1); start != end {
				return "items of a null"
			}
		}
		for i := from; i < to; i++ {
			all = append(all, read(a.ListValues(), int(i)))
		}
	case *array.Struct:
		for i := range a.NumField() {
			all = append(all, read(a.Field(i), row))
		}
		return strings.Join(all, "|")
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	case *array.Timestamp:
		return strconv.FormatInt(int64(a.Value(row)), 10)
	case *array.String:
		return a.Value(row)
	case *array.Binary:
		return string(a.Value(row))
	}
	return strings.Join(all, ",")
}

// TestConvertedRowsHaveTheSameValues converts slices of random columns of every type, and checks that
// Bytes bounds what is allocated.
//
// spec: stage-20
func TestConvertedRowsHaveTheSameValues(t *testing.T) {
	t.Parallel()
	for n, c := range conversions {
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			b := array.NewBuilder(memory.DefaultAllocator, c.from)
			before, rows := r.IntN(20), r.IntN(60)
			var want []string
			for range before + rows + r.IntN(5) {
				want = append(want, fill(r, b))
			}
			whole := b.NewArray()
			b.Release()
			column := array.NewSlice(whole, int64(before), int64(before+rows))
			whole.Release()
			schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: c.from, Nullable: true}}, nil)
			in := array.NewRecordBatch(schema, []arrow.Array{column}, int64(rows))
			column.Release()

			one, err := conform.New(schema)
			require.NoError(t, err)
			require.True(t, arrow.TypeEqual(c.to, one.Schema().Field(0).Type), "%s", one.Schema())
			checked := memory.NewCheckedAllocator(batch.Default())
			mem := &batchtest.Counting{Allocator: checked}
			bound, err := one.Bytes(in)
			require.NoError(t, err)
			out, err := one.Batch(in, mem)
			require.NoError(t, err)
			in.Release()
			require.LessOrEqual(t, mem.Bytes, bound, "%s", c.from)
			require.True(t, out.Schema().Equal(one.Schema()))
			for row := range rows {
				require.Equal(t, want[before+row], read(out.Column(0), row), "%s, row %d", c.from, row)
			}
			out.Release()
			checked.AssertSize(t, 0)
		}
	}
}

// TestDictionariesOfLargeTextsBecomeTexts decodes a slice of a dictionary that arrow-go has no builder for, with a null value.
//
// spec: stage-20
func TestDictionariesOfLargeTextsBecomeTexts(t *testing.T) {
	t.Parallel()
	values := array.NewLargeStringBuilder(memory.DefaultAllocator)
	defer values.Release()
	values.AppendValues([]string{"a", "?", "bcd"}, []bool{true, false, true})
	indices := array.NewInt32Builder(memory.DefaultAllocator)
	defer indices.Release()
	indices.AppendValues([]int32{2, 2, 0, 1, 0}, []bool{true, true, true, true, false})
	of, at := values.NewArray(), indices.NewArray()
	defer of.Release()
	defer at.Release()
	dictionary := codes(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.LargeString).(*arrow.DictionaryType)
	whole := array.NewDictionaryArray(dictionary, at, of)
	defer whole.Release()
	column := array.NewSlice(whole, 1, 5)
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dictionary, Nullable: true}}, nil)
	in := array.NewRecordBatch(schema, []arrow.Array{column}, 4)
	defer in.Release()
	one, err := conform.New(schema)
	require.NoError(t, err)
	out, err := one.Batch(in, memory.DefaultAllocator)
	require.NoError(t, err)
	defer out.Release()
	var got []string
	for row := range 4 {
		got = append(got, read(out.Column(0), row))
	}
	require.Equal(t, []string{"bcd", "a", "null", "null"}, got)
}

// TestUUIDsBecomeBytes converts the extension type of Arrow.
func TestUUIDsBecomeBytes(t *testing.T) {
	t.Parallel()
	b := extensions.NewUUIDBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendBytes([16]byte{1, 2, 3})
	b.AppendNull()
	column := b.NewArray()
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: column.DataType(), Nullable: true}}, nil)
	in := array.NewRecordBatch(schema, []arrow.Array{column}, 2)
	defer in.Release()
	one, err := conform.New(schema)
	require.NoError(t, err)
	out, err := one.Batch(in, memory.DefaultAllocator)
	require.NoError(t, err)
	defer out.Release()
	require.Equal(t, byte(3), out.Column(0).(*array.FixedSizeBinary).Value(0)[2])
	require.True(t, out.Column(0).IsNull(1))
}

// TestTypesThatTablesDoNotHaveAreRefused names every such column.
//
// spec: stage-21
func TestTypesThatTablesDoNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	var fields []arrow.Field
	for i, of := range []arrow.DataType{
		arrow.Null, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Float16, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time64ns, arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Duration_us,
		&arrow.Decimal256Type{Precision: 50}, &arrow.Decimal128Type{Precision: 39}, &arrow.Decimal128Type{Precision: 4, Scale: 5}, &arrow.Decimal128Type{Precision: 4, Scale: -1}, arrow.FixedSizeListOf(2, text), arrow.ListViewOf(long), arrow.FixedWidthTypes.MonthInterval,
		arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.StructOf(), arrow.ListOf(arrow.StructOf()), arrow.StructOf(arrow.Field{Name: "deep", Type: arrow.PrimitiveTypes.Uint16}),
		arrow.MapOf(text, arrow.PrimitiveTypes.Uint16), codes(arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint32), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, text),
	} {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("bad", i, "."), Type: of})
	}
	_, err := conform.New(arrow.NewSchema(append(fields, arrow.Field{Name: "good.", Type: long}), nil))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Len(t, fault.As(err).Faults, len(fields))
	for _, f := range fields {
		require.ErrorContains(t, err, f.Name)
	}
	require.NotContains(t, err.Error(), "good.")
	require.NotEmpty(t, fault.As(err).Remedy)
}

// TestNullsInRequiredColumnsAreRefused names the column.
func TestNullsInRequiredColumnsAreRefused(t *testing.T) {
	t.Parallel()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: long}}, nil)
	one, err := conform.New(schema)
	require.NoError(t, err)
	none := batch.Nulls(long, 1, memory.DefaultAllocator)
	defer none.Release()
	in := array.NewRecordBatch(schema, []arrow.Array{none}, 1)
	defer in.Release()
	_, err = one.Batch(in, memory.DefaultAllocator)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "id")
	empty := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
	defer empty.Release()
	_, err = one.Batch(empty, memory.DefaultAllocator)
	require.Equal(t, fault.Internal, fault.KindOf(err))
	other := batch.Nulls(text, 1, memory.DefaultAllocator)
	defer other.Release()
	wrong := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "id", Type: text, Nullable: true}}, nil), []arrow.Array{other}, 1)
	defer wrong.Release()
	_, err = one.Bytes(wrong)
	require.Equal(t, fault.Internal, fault.KindOf(err))
	require.ErrorContains(t, err, "id")
}
