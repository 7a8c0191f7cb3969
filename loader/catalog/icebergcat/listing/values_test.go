package listing_test

import (
	"context"
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

func TestTypes(t *testing.T) {
	primitive := iceberg.PrimitiveTypes
	key := iceberg.MapType{KeyID: 40, KeyType: primitive.String, ValueID: 41, ValueType: primitive.Int32}
	required := iceberg.MapType{KeyID: 42, KeyType: primitive.String, ValueID: 43, ValueType: primitive.Int32, ValueRequired: true}
	cases := []struct {
		iceberg iceberg.Type
		arrow   string
	}{
		{primitive.Bool, "bool"},
		{primitive.Int32, "int32"},
		{primitive.Int64, "int64"},
		{primitive.Float32, "float32"},
		{primitive.Float64, "float64"},
		{primitive.Date, "date32"},
		{primitive.Time, "time64[us]"},
		{primitive.Timestamp, "timestamp[us]"},
		{primitive.TimestampTz, "timestamp[us, tz=UTC]"},
		{primitive.TimestampNs, "timestamp[ns]"},
		{primitive.TimestampTzNs, "timestamp[ns, tz=UTC]"},
		{primitive.String, "utf8"},
		{primitive.Binary, "binary"},
		{primitive.UUID, "fixed_size_binary[16]"},
		{iceberg.FixedTypeOf(5), "fixed_size_binary[5]"},
		{iceberg.DecimalTypeOf(12, 3), "decimal(12, 3)"},
		{icebergtest.ListOf(50, primitive.Int64), "list<element: int64, nullable>"},
		{&iceberg.ListType{ElementID: 51, Element: primitive.Int64, ElementRequired: true}, "list<element: int64>"},
		{&key, "map<utf8, int32, items_nullable>"},
		{&required, "map<utf8, int32, items_non_nullable>"},
		{
			icebergtest.StructOf(icebergtest.Field(52, "x", primitive.Int32), iceberg.NestedField{ID: 53, Name: "y", Type: primitive.String, Required: true}),
			"struct<x: int32 nullable, y: utf8>",
		},
		{iceberg.UnknownType{}, "null"},
		{iceberg.VariantType{}, "null"},
	}
	fields := make([]iceberg.NestedField, len(cases))
	for i, c := range cases {
		fields[i] = icebergtest.Field(i+1, "c"+string(rune('a'+i)), c.iceberg)
	}
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, iceberg.NewSchema(0, fields...), icebergtest.FormatVersion("3"))
	table, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Len(t, table.Fields, len(cases))
	for i, c := range cases {
		f := table.Fields[i]
		require.Equal(t, fields[i].Name, f.Name)
		require.Equal(t, c.arrow, f.Type.String())
		require.False(t, f.Required)
		require.True(t, f.Arrow().Nullable)
		require.Zero(t, f.Arrow().Metadata.Len())
	}
	deep, ok := table.Fields[20].Type.(*arrow.StructType)
	require.True(t, ok)
	require.True(t, deep.Field(0).Nullable)
	require.False(t, deep.Field(1).Nullable)
	require.Zero(t, deep.Field(0).Metadata.Len())
}

// Partition values of every type are written by iceberg-go and read back.
func TestPartitionValues(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	primitive := iceberg.PrimitiveTypes
	cases := []struct {
		name      string
		typ       iceberg.Type
		transform iceberg.Transform
		kind      catalog.Transform
		value     any
		logical   string
		want      any
	}{
		{"bool", primitive.Bool, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, true, "", true},
		{"int", primitive.Int32, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, int32(-7), "", int64(-7)},
		{"long", primitive.Int64, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, int64(1) << 40, "", int64(1) << 40},
		{"float", primitive.Float32, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, float32(0.5), "", 0.5},
		{"double", primitive.Float64, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, 0.1, "", 0.1},
		{"string", primitive.String, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, "é", "", "é"},
		{"empty string", primitive.String, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, "", "", ""},
		{"binary", primitive.Binary, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, []byte{0, 255}, "", "\x00\xff"},
		{"date", primitive.Date, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, iceberg.Date(-1), "date", int64(-1)},
		{"time", primitive.Time, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, iceberg.Time(86399999999), "time-micros", int64(86399999999)},
		{"timestamp", primitive.Timestamp, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, iceberg.Timestamp(-1), "timestamp-micros", int64(-1)},
		{"timestamptz", primitive.TimestampTz, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, iceberg.Timestamp(1700000000000001), "timestamp-micros", int64(1700000000000001)},
		{"uuid", primitive.UUID, iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, id, "uuid", string(id[:])},
		{"decimal", iceberg.DecimalTypeOf(9, 2), iceberg.IdentityTransform{}, catalog.Transform{Kind: catalog.Identity}, iceberg.DecimalLiteral{Val: decimal128.FromI64(-1234), Scale: 2}, "decimal", "-12.34"},
		{"bucket", primitive.Int64, iceberg.BucketTransform{NumBuckets: 16}, catalog.Transform{Kind: catalog.Bucket, N: 16}, int32(15), "", int64(15)},
		{"truncate", primitive.String, iceberg.TruncateTransform{Width: 2}, catalog.Transform{Kind: catalog.Truncate, N: 2}, "ab", "", "ab"},
		{"truncated int", primitive.Int32, iceberg.TruncateTransform{Width: 10}, catalog.Transform{Kind: catalog.Truncate, N: 10}, int32(-20), "", int64(-20)},
		{"truncated binary", primitive.Binary, iceberg.TruncateTransform{Width: 1}, catalog.Transform{Kind: catalog.Truncate, N: 1}, []byte{255}, "", "\xff"},
		{"month of a date", primitive.Date, iceberg.MonthTransform{}, catalog.Transform{Kind: catalog.Month}, int32(600), "", int64(600)},
		{"day before 1970", primitive.Timestamp, iceberg.DayTransform{}, catalog.Transform{Kind: catalog.Day}, iceberg.Date(-1), "date", int64(-1)},
		{"year", primitive.Date, iceberg.YearTransform{}, catalog.Transform{Kind: catalog.Year}, int32(55), "", int64(55)},
		{"month", primitive.Timestamp, iceberg.MonthTransform{}, catalog.Transform{Kind: catalog.Month}, int32(-3), "", int64(-3)},
		{"day", primitive.TimestampTz, iceberg.DayTransform{}, catalog.Transform{Kind: catalog.Day}, iceberg.Date(20000), "date", int64(20000)},
		{"hour", primitive.Timestamp, iceberg.HourTransform{}, catalog.Transform{Kind: catalog.Hour}, int32(480000), "", int64(480000)},
	}
	columns := []iceberg.NestedField{icebergtest.IDSchema().Field(0)}
	var fields []iceberg.PartitionField
	var want catalog.Spec
	values, nulls, logical := map[int]any{}, map[int]any{}, map[int]string{}
	for i, c := range cases {
		column, id := i+2, 1000+i
		columns = append(columns, icebergtest.Field(column, "c"+strconv.Itoa(i), c.typ))
		fields = append(fields, iceberg.PartitionField{SourceIDs: []int{column}, FieldID: id, Name: "p" + strconv.Itoa(i), Transform: c.transform})
		want = append(want, catalog.PartitionField{ID: id, Source: column, Name: "p" + strconv.Itoa(i), Transform: c.kind})
		values[id], nulls[id], logical[id] = c.value, nil, c.logical
	}
	w := icebergtest.NewWriter(t)
	spec := iceberg.NewPartitionSpec(fields...)
	spec = w.Create(t, icebergtest.Events, iceberg.NewSchema(0, columns...), icecatalog.WithPartitionSpec(&spec)).Spec()
	of := func(name string, partition map[int]any) iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, icebergtest.Location(name), iceberg.ParquetFile, partition, logical, nil, 10, 10)
		require.NoError(t, err)
		return b.Build()
	}
	w.Add(t, icebergtest.Events, "", of("a", values), of("b", nulls))
	reader := w.Open(t)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Len(t, files, 2)
	for i, c := range cases {
		require.Equal(t, c.want, files[0].Partition[i], c.name)
		require.Nil(t, files[1].Partition[i], c.name)
	}
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, map[int]catalog.Spec{0: want}, table.Specs)
}

// Every file is read with its own spec; void fields are omitted.
func TestSpecEvolution(t *testing.T) {
	w := icebergtest.NewWriter(t)
	schema := iceberg.NewSchema(0, icebergtest.Nested(t, fieldsOf(t))...)
	spec := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b4", Transform: iceberg.BucketTransform{NumBuckets: 4}})
	first := w.Create(t, icebergtest.Events, schema, icecatalog.WithPartitionSpec(&spec)).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, first, icebergtest.Location("a"), map[int]any{1000: int32(3)}, nil))
	next := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b4", Transform: iceberg.VoidTransform{}},
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1001, Name: "b8", Transform: iceberg.BucketTransform{NumBuckets: 8}},
		iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "country", Transform: iceberg.IdentityTransform{}})
	w.Update(t, icebergtest.Events, icetable.NewAddPartitionSpecUpdate(&next, false), icetable.NewSetDefaultSpecUpdate(-1))
	second := w.Load(t, icebergtest.Events).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, second, icebergtest.Location("b"), map[int]any{1000: nil, 1001: int32(7), 1002: "fr"}, nil))

	reader := w.Open(t)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, 0, files[0].Spec)
	require.Equal(t, []any{int64(3)}, files[0].Partition)
	require.Equal(t, 1, files[1].Spec)
	require.Equal(t, []any{int64(7), "fr"}, files[1].Partition)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, map[int]catalog.Spec{
		0: {{ID: 1000, Source: 1, Name: "b4", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}}},
		1: {
			{ID: 1001, Source: 1, Name: "b8", Transform: catalog.Transform{Kind: catalog.Bucket, N: 8}},
			{ID: 1002, Source: 3, Name: "country", Transform: catalog.Transform{Kind: catalog.Identity}},
		},
	}, table.Specs)
}

func fieldsOf(t *testing.T) []catalog.Field {
	t.Helper()
	return []catalog.Field{
		{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{ID: 2, Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{ID: 3, Name: "country", Type: arrow.BinaryTypes.String},
	}
}

func TestRanges(t *testing.T) {
	const nobody = -1
	primitive := iceberg.PrimitiveTypes
	marshal := func(l iceberg.Literal) []byte {
		raw, err := l.MarshalBinary()
		require.NoError(t, err)
		return raw
	}
	known := func(low, high expr.Value) expr.Range {
		return expr.Range{Lower: low, Upper: high, HasLower: true, HasUpper: true, Nulls: expr.Unknown, Rows: 10}
	}
	decimal := func(n int64) expr.Value { return expr.Decimal(big.NewInt(n), 2) }
	text := []byte("abc")
	cases := []struct {
		name        string
		typ         iceberg.Type
		low, high   []byte
		nulls, nans int64 // unknown: not counted
		want        expr.Range
	}{
		{"bool", primitive.Bool, marshal(iceberg.BoolLiteral(false)), marshal(iceberg.BoolLiteral(true)), nobody, nobody, known(expr.Bool(false), expr.Bool(true))},
		{"int", primitive.Int32, marshal(iceberg.Int32Literal(-5)), marshal(iceberg.Int32Literal(5)), nobody, nobody, known(expr.Int(-5), expr.Int(5))},
		{"long", primitive.Int64, marshal(iceberg.Int64Literal(-5)), marshal(iceberg.Int64Literal(5)), nobody, nobody, known(expr.Int(-5), expr.Int(5))},
		{"float", primitive.Float32, marshal(iceberg.Float32Literal(-0.5)), marshal(iceberg.Float32Literal(0.5)), nobody, nobody, known(expr.Float(-0.5), expr.Float(0.5))},
		{"double", primitive.Float64, marshal(iceberg.Float64Literal(-0.5)), marshal(iceberg.Float64Literal(0.5)), nobody, nobody, known(expr.Float(-0.5), expr.Float(0.5))},
		{"date", primitive.Date, marshal(iceberg.DateLiteral(-1)), marshal(iceberg.DateLiteral(1)), nobody, nobody, known(expr.Int(-1), expr.Int(1))},
		{"time", primitive.Time, marshal(iceberg.TimeLiteral(1)), marshal(iceberg.TimeLiteral(2)), nobody, nobody, known(expr.Int(1), expr.Int(2))},
		{"timestamp", primitive.Timestamp, marshal(iceberg.TimestampLiteral(-9)), marshal(iceberg.TimestampLiteral(2)), nobody, nobody, known(expr.Int(-9), expr.Int(2))},
		{"timestamptz", primitive.TimestampTz, marshal(iceberg.TimestampLiteral(-9)), marshal(iceberg.TimestampLiteral(2)), nobody, nobody, known(expr.Int(-9), expr.Int(2))},
		{"nanoseconds go outwards", primitive.TimestampNs, marshal(iceberg.TimestampNsLiteral(-1)), marshal(iceberg.TimestampNsLiteral(1)), nobody, nobody, known(expr.Int(-1), expr.Int(1))},
		{"whole nanoseconds stay", primitive.TimestampTzNs, marshal(iceberg.TimestampNsLiteral(-2000)), marshal(iceberg.TimestampNsLiteral(3000)), nobody, nobody, known(expr.Int(-2), expr.Int(3))},
		{"inner nanoseconds", primitive.TimestampNs, marshal(iceberg.TimestampNsLiteral(1999)), marshal(iceberg.TimestampNsLiteral(2001)), nobody, nobody, known(expr.Int(1), expr.Int(3))},
		{"string", primitive.String, text, []byte("abd"), nobody, nobody, known(expr.Text("abc"), expr.Text("abd"))},
		{"binary", primitive.Binary, []byte{0}, []byte{255}, nobody, nobody, known(expr.Bytes([]byte{0}), expr.Bytes([]byte{255}))},
		{"fixed", iceberg.FixedTypeOf(3), text, text, nobody, nobody, known(expr.Bytes(text), expr.Bytes(text))},
		{"decimal", iceberg.DecimalTypeOf(9, 2), []byte{0xff}, []byte{0x01, 0x00}, nobody, nobody, known(decimal(-1), decimal(256))},

		{"no bounds", primitive.Int32, nil, nil, nobody, nobody, expr.Unbounded(10)},
		{"lower alone", primitive.Int32, marshal(iceberg.Int32Literal(1)), nil, nobody, nobody, expr.Range{Lower: expr.Int(1), HasLower: true, Nulls: expr.Unknown, Rows: 10}},
		{"nulls", primitive.Int32, nil, nil, 10, nobody, expr.Range{Nulls: 10, Rows: 10}},
		{"impossible nulls", primitive.Int32, nil, nil, 11, nobody, expr.Unbounded(10)},
		{"no NaN", primitive.Float64, nil, nil, nobody, 0, expr.Range{Nulls: expr.Unknown, Rows: 10, NoNaN: true}},
		{"some NaN", primitive.Float64, nil, nil, nobody, 1, expr.Unbounded(10)},
		{"NaN as a bound", primitive.Float64, marshal(iceberg.Float64Literal(1)), marshal(iceberg.Float64Literal(math.NaN())), nobody, nobody, expr.Range{Lower: expr.Float(1), HasLower: true, Nulls: expr.Unknown, Rows: 10}},
		{"bounds from before a promotion", primitive.Int64, marshal(iceberg.Int32Literal(-1)), marshal(iceberg.Int64Literal(2)), nobody, nobody, expr.Range{Lower: expr.Int(-1), HasLower: true, Upper: expr.Int(2), HasUpper: true, Nulls: expr.Unknown, Rows: 10}},
		{"bounds of another width", primitive.Int64, []byte{1, 2, 3}, marshal(iceberg.Int64Literal(2)), nobody, nobody, expr.Range{Upper: expr.Int(2), HasUpper: true, Nulls: expr.Unknown, Rows: 10}},
		{"narrow bounds of a column that was not promoted", primitive.Int32, marshal(iceberg.Int32Literal(1)), marshal(iceberg.Int64Literal(2)), nobody, nobody, expr.Range{Lower: expr.Int(1), HasLower: true, Nulls: expr.Unknown, Rows: 10}},
		{"bounds the wrong way round", primitive.Int64, marshal(iceberg.Int64Literal(2)), marshal(iceberg.Int64Literal(1)), nobody, nobody, expr.Unbounded(10)},
		{"text the wrong way round", primitive.String, []byte("b"), []byte("a"), nobody, nobody, expr.Unbounded(10)},
		{"decimals the wrong way round", iceberg.DecimalTypeOf(9, 2), []byte{1}, []byte{0xff}, nobody, nobody, expr.Unbounded(10)},
		{"fixed that was cut", iceberg.FixedTypeOf(4), text, text, nobody, nobody, expr.Unbounded(10)},
		{"uuid", primitive.UUID, make([]byte, 16), make([]byte, 16), nobody, nobody, expr.Unbounded(10)},
	}
	columns := []iceberg.NestedField{icebergtest.IDSchema().Field(0)}
	low, high, nulls, nans := map[int][]byte{}, map[int][]byte{}, map[int]int64{}, map[int]int64{}
	var bounds []int
	for i, c := range cases {
		id := i + 2
		bounds = append(bounds, id)
		columns = append(columns, icebergtest.Field(id, "c"+strconv.Itoa(i), c.typ))
		if c.low != nil {
			low[id] = c.low
		}
		if c.high != nil {
			high[id] = c.high
		}
		if c.nulls != nobody {
			nulls[id] = c.nulls
		}
		if c.nans != nobody {
			nans[id] = c.nans
		}
	}
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, columns...), icebergtest.FormatVersion("3")).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) {
		b.LowerBoundValues(low).UpperBoundValues(high).NullValueCounts(nulls).NaNValueCounts(nans).FirstRowID(0)
	}))
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), table, []int{1}, bounds)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Len(t, files[0].Ranges, len(cases))
	for i, c := range cases {
		require.Equal(t, c.want, files[0].Ranges[i+2], c.name)
	}
}

// An identity partition value is the range of its column; a bucket is not, and
// a column without statistics of its own has no range.
func TestRangesOfPartitionColumns(t *testing.T) {
	w := icebergtest.NewWriter(t)
	schema := append(icebergtest.Nested(t, fieldsOf(t)), icebergtest.Field(4, "tags", icebergtest.ListOf(5, iceberg.PrimitiveTypes.String)), icebergtest.Field(6, "f", iceberg.PrimitiveTypes.Float64))
	spec := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b", Transform: iceberg.BucketTransform{NumBuckets: 4}},
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "day", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "country", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{6}, FieldID: 1003, Name: "f", Transform: iceberg.IdentityTransform{}})
	spec = w.Create(t, icebergtest.Events, iceberg.NewSchema(0, schema...), icecatalog.WithPartitionSpec(&spec)).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"),
		map[int]any{1000: int32(1), 1001: iceberg.Date(7), 1002: nil, 1003: math.NaN()}, nil))
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), table, []int{1}, []int{1, 2, 3, 4, 6})
	require.NoError(t, err)
	require.Equal(t, map[int]expr.Range{
		1: expr.Unbounded(10),
		2: expr.Constant(expr.Int(7), 10),
		3: expr.Constant(expr.Value{}, 10),
		6: expr.Unbounded(10),
	}, files[0].Ranges)
}

// iceberg-go writes a table with rows: it has the files, buckets and row counts that
// iceberg-go itself plans.
func TestWrittenByIcebergGo(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := icebergtest.SuiteSpec()
	tbl := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, icebergtest.Nested(t, fieldsOf(t))...), icecatalog.WithPartitionSpec(&spec))
	schema, err := icetable.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	require.NoError(t, err)
	ctx := compute.WithAllocator(context.WithoutCancel(t.Context()), memory.DefaultAllocator)
	for commit := range int64(3) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range int64(100) {
			b.Field(0).(*array.Int64Builder).Append(commit*100 + i)
			b.Field(1).(*array.Date32Builder).Append(arrow.Date32(20000 + i%2))
			b.Field(2).(*array.StringBuilder).Append("fr")
		}
		batch := b.NewRecordBatch()
		reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
		require.NoError(t, err)
		_, err = w.Load(t, icebergtest.Events).Append(ctx, reader, nil)
		require.NoError(t, err)
		reader.Release()
		batch.Release()
		b.Release()
	}
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), table, []int{1, 2, 3}, []int{1})
	require.NoError(t, err)
	scans, err := w.Load(t, icebergtest.Events).Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	require.Len(t, files, len(scans))

	planned := make(map[string]iceberg.DataFile)
	for _, scanned := range scans {
		planned[scanned.File.FilePath()] = scanned.File
	}
	var rows int64
	for i, f := range files {
		d := planned[f.Location]
		require.NotNil(t, d)
		require.Equal(t, d.FileSizeBytes(), f.Bytes)
		require.Equal(t, d.Count(), f.Rows)
		require.Equal(t, []any{int64(d.Partition()[1000].(int32)), int64(d.Partition()[1001].(iceberg.Date)), "fr"}, f.Partition)
		require.True(t, f.Ranges[1].HasLower && f.Ranges[1].HasUpper)
		require.Zero(t, f.Ranges[1].Nulls)
		require.Equal(t, int64(i/(len(files)/3)+1), f.Sequence)
		rows += f.Rows
	}
	require.Equal(t, int64(300), rows)
}
