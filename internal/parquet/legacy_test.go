package parquet_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// leafPages has the levels and values of a primitive column.
type leafPages struct {
	definition, repetition []int16
	values                 []int64
}

// handmade writes a file of one row group, with any schema of INT64 and INT96.
func handmade(t *testing.T, fields schema.FieldList, columns ...leafPages) []byte {
	t.Helper()
	root, err := schema.NewGroupNode("schema", arrowparquet.Repetitions.Required, fields, -1)
	require.NoError(t, err)
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(arrowparquet.NewWriterProperties(arrowparquet.WithDictionaryDefault(false))))
	group, err := w.AppendRowGroupChecked()
	require.NoError(t, err)
	for _, c := range columns {
		chunk, err := group.NextColumn()
		require.NoError(t, err)
		switch chunk := chunk.(type) {
		case *file.Int64ColumnChunkWriter:
			_, err = chunk.WriteBatch(c.values, c.definition, c.repetition)
		case *file.Int96ColumnChunkWriter:
			stored := make([]arrowparquet.Int96, len(c.values))
			for i, day := range c.values {
				stored[i] = arrowparquet.Int96{8: byte(day), 9: byte(day >> 8), 10: byte(day >> 16), 11: byte(day >> 24)}
			}
			_, err = chunk.WriteBatch(stored, c.definition, c.repetition)
		default:
			t.Fatalf("%T", chunk)
		}
		require.NoError(t, err)
		require.NoError(t, chunk.Close())
	}
	require.NoError(t, group.Close())
	require.NoError(t, w.Close())
	return out.Bytes()
}

func long64(t *testing.T, name string, repetition arrowparquet.Repetition, id int32) schema.Node {
	t.Helper()
	n, err := schema.NewPrimitiveNode(name, repetition, arrowparquet.Types.Int64, id, -1)
	require.NoError(t, err)
	return n
}

func group(name string, repetition arrowparquet.Repetition, logical schema.LogicalType, id int32, fields ...schema.Node) schema.Node {
	return schema.Must(schema.NewGroupNodeLogical(name, repetition, fields, logical, id))
}

// TestLegacyLists reads a list of every form in the format's rules. Its rows are null,
// empty, and two elements, where the form allows that.
//
// spec: resolve-61
func TestLegacyLists(t *testing.T) {
	required, optional, repeated := arrowparquet.Repetitions.Required, arrowparquet.Repetitions.Optional, arrowparquet.Repetitions.Repeated
	isList, isMap := schema.NewListLogicalType(), schema.MapLogicalType{}
	i64 := arrow.PrimitiveTypes.Int64
	one := arrow.StructOf(arrow.Field{Name: "x", Type: i64})
	two := arrow.StructOf(arrow.Field{Name: "x", Type: i64}, nullable("y", i64))
	// An optional list of required elements: null, empty, two elements.
	flat := leafPages{[]int16{0, 1, 2, 2}, []int16{0, 0, 0, 1}, []int64{5, 6}}
	// The same with nullable elements, of which the second is null.
	threeLevels := leafPages{[]int16{0, 1, 3, 2}, []int16{0, 0, 0, 1}, []int64{5}}
	// A required list inside an optional one: null, empty, [[], [5, 6]].
	nested := leafPages{[]int16{0, 1, 2, 3, 3}, []int16{0, 0, 0, 1, 2}, []int64{5, 6}}
	// A repeated field outside lists.
	bare := leafPages{[]int16{0, 1, 1}, []int16{0, 0, 1}, []int64{5, 6}}
	for name, c := range map[string]struct {
		column  schema.Node
		columns []leafPages
		want    arrow.DataType
		values  string
	}{
		"three levels": {
			group("c", optional, isList, 1, group("list", repeated, nil, -1, long64(t, "element", optional, 2))),
			[]leafPages{threeLevels},
			list(i64, true), `[null,[],[5,null]]`,
		},
		"three levels of other names": {
			group("c", optional, isList, 1, group("bag", repeated, nil, -1, long64(t, "array_element", optional, 2))),
			[]leafPages{threeLevels},
			list(i64, true), `[null,[],[5,null]]`,
		},
		"primitive": {
			group("c", optional, isList, 1, long64(t, "element", repeated, 2)),
			[]leafPages{flat},
			list(i64, false), `[null,[],[5,6]]`,
		},
		"struct of several": {
			group("c", optional, isList, 1, group("element", repeated, nil, 2, long64(t, "x", required, 3), long64(t, "y", optional, 4))),
			[]leafPages{flat, {[]int16{0, 1, 2, 3}, []int16{0, 0, 0, 1}, []int64{9}}},
			list(two, false), `[null,[],[{"x":5,"y":null},{"x":6,"y":9}]]`,
		},
		"struct of one, array": {
			group("c", optional, isList, 1, group("array", repeated, nil, 2, long64(t, "x", required, 3))),
			[]leafPages{flat},
			list(one, false), `[null,[],[{"x":5},{"x":6}]]`,
		},
		"struct of one, tuple": {
			group("c", optional, isList, 1, group("c_tuple", repeated, nil, 2, long64(t, "x", required, 3))),
			[]leafPages{flat},
			list(one, false), `[null,[],[{"x":5},{"x":6}]]`,
		},
		"no struct: tuple of another list": {
			group("c", optional, isList, 1, group("d_tuple", repeated, nil, -1, long64(t, "x", required, 2))),
			[]leafPages{flat},
			list(i64, false), `[null,[],[5,6]]`,
		},
		"two-level list in another": {
			group("c", optional, isList, 1, group("array", repeated, isList, 2, long64(t, "array", repeated, 3))),
			[]leafPages{nested},
			list(list(i64, false), false), `[null,[],[[],[5,6]]]`,
		},
		"two-level lists of any name": {
			group("c", optional, isList, 1, group("bag", repeated, isList, 2, long64(t, "bag", repeated, 3))),
			[]leafPages{nested},
			list(list(i64, false), false), `[null,[],[[],[5,6]]]`,
		},
		"three-level list in a two-level list": {
			group("c", optional, isList, 1, group("array", repeated, isList, 2, group("list", repeated, nil, -1, long64(t, "element", required, 3)))),
			[]leafPages{nested},
			list(list(i64, false), false), `[null,[],[[],[5,6]]]`,
		},
		"struct of a repeated field": {
			group("c", optional, isList, 1, group("list", repeated, nil, 2, long64(t, "x", repeated, 3))),
			[]leafPages{nested},
			list(arrow.StructOf(arrow.Field{Name: "x", Type: list(i64, false)}), false), `[null,[],[{"x":[]},{"x":[5,6]}]]`,
		},
		"map in a list": {
			group("c", optional, isList, 1, group("array", repeated, isMap, 2, group("map", repeated, nil, -1, long64(t, "key", required, 3), long64(t, "value", required, 4)))),
			[]leafPages{nested, nested},
			list(arrow.MapOfFields(arrow.Field{Name: "key", Type: i64}, arrow.Field{Name: "value", Type: i64}), false),
			`[null,[],[[],[{"key":5,"value":5},{"key":6,"value":6}]]]`,
		},
		"repeated primitive": {
			long64(t, "c", repeated, 1), []leafPages{bare}, list(i64, false), `[[],[5,6]]`,
		},
		"repeated group": {
			group("c", repeated, nil, 1, long64(t, "x", required, 3)), []leafPages{bare}, list(one, false), `[[],[{"x":5},{"x":6}]]`,
		},
		"map with nullable keys": {
			group("c", optional, isMap, 1, group("map", repeated, nil, -1, long64(t, "key", optional, 2), long64(t, "value", optional, 3))),
			[]leafPages{{[]int16{0, 1, 3, 3}, []int16{0, 0, 0, 1}, []int64{1, 2}}, {[]int16{0, 1, 3, 2}, []int16{0, 0, 0, 1}, []int64{5}}},
			arrow.MapOfFields(arrow.Field{Name: "key", Type: i64}, nullable("value", i64)),
			`[null,[],[{"key":1,"value":5},{"key":2,"value":null}]]`,
		},
		"map of lists": {
			group("c", optional, isMap, 1, group("map", repeated, nil, -1, long64(t, "key", required, 2), group("value", required, isList, 3, long64(t, "array", repeated, 4)))),
			[]leafPages{{[]int16{0, 1, 2, 2}, []int16{0, 0, 0, 1}, []int64{1, 2}}, {[]int16{0, 1, 2, 3, 3}, []int16{0, 0, 0, 1, 2}, []int64{5, 6}}},
			arrow.MapOfFields(arrow.Field{Name: "key", Type: i64}, arrow.Field{Name: "value", Type: list(i64, false)}),
			`[null,[],[{"key":1,"value":[]},{"key":2,"value":[5,6]}]]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := handmade(t, schema.FieldList{c.column}, c.columns...)
			for _, nulls := range []bool{true, c.column.RepetitionType() == optional} {
				sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.want, Nullable: nulls}}, nil)
				for _, batchRows := range []int{0, 1} {
					got := mustRead(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: sc, BatchRows: batchRows})
					requireEqual(t, column(t, sc, c.values), got)
				}
			}
		})
	}
}

// TestLegacyListFieldIDs expects that the repeated field has the id of the element.
func TestLegacyListFieldIDs(t *testing.T) {
	optional, repeated := arrowparquet.Repetitions.Optional, arrowparquet.Repetitions.Repeated
	content := handmade(t, schema.FieldList{group("c", optional, schema.NewListLogicalType(), 1, long64(t, "array", repeated, 7))},
		leafPages{[]int16{2}, []int16{0}, []int64{5}})
	of := func(id string) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{id})})
	}
	sc := func(id string) *arrow.Schema { return arrow.NewSchema([]arrow.Field{nullable("c", of(id))}, nil) }
	mustRead(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: sc("7")})
	_, err := read(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: sc("8")})
	require.ErrorContains(t, err, "column c.element has field id 7 in the file, 8 in the table")
}

// TestMapsWithNullableKeys expects an error for null keys, which a file's schema may
// allow.
func TestMapsWithNullableKeys(t *testing.T) {
	optional, repeated := arrowparquet.Repetitions.Optional, arrowparquet.Repetitions.Repeated
	pair := group("map", repeated, nil, -1, long64(t, "key", optional, 2), long64(t, "value", optional, 3))
	content := handmade(t, schema.FieldList{group("c", optional, schema.MapLogicalType{}, 1, pair)},
		leafPages{[]int16{3, 2}, []int16{0, 1}, []int64{1}}, leafPages{[]int16{3, 3}, []int16{0, 1}, []int64{5, 6}})
	i64 := arrow.PrimitiveTypes.Int64
	sc := arrow.NewSchema([]arrow.Field{nullable("c", arrow.MapOf(i64, i64))}, nil)
	_, err := read(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: sc})
	require.ErrorContains(t, err, "required column c.key has nulls")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	pairs := list(arrow.StructOf(nullable("key", i64), nullable("value", i64)), false)
	for _, kind := range []arrow.DataType{list(i64, true), pairs, arrow.MapOf(arrow.BinaryTypes.String, i64)} {
		_, err = open(t, content).Read(t.Context(), parquet.ReadOptions{Fields: ids(1), Schema: arrow.NewSchema([]arrow.Field{nullable("c", kind)}, nil)})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s", kind)
	}
}

// TestInt96Columns reads INT96 as timestamps, if 64 bits can hold them, and as nothing
// else.
//
// spec: resolve-60
func TestInt96Columns(t *testing.T) {
	required, optional, repeated := arrowparquet.Repetitions.Required, arrowparquet.Repetitions.Optional, arrowparquet.Repetitions.Repeated
	int96 := func(name string, repetition arrowparquet.Repetition, id int32) schema.Node {
		n, err := schema.NewPrimitiveNode(name, repetition, arrowparquet.Types.Int96, id, -1)
		require.NoError(t, err)
		return n
	}
	const epoch = 2_440_588
	days := leafPages{[]int16{1, 0, 1}, nil, []int64{epoch + 1, epoch - 1}}
	content := handmade(t, schema.FieldList{int96("c", optional, 1)}, days)
	of := func(kind arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{nullable("c", kind)}, nil)
	}
	micros, nanos := &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	for kind, values := range map[arrow.DataType]string{micros: `[86400000000,null,-86400000000]`, nanos: `[86400000000000,null,-86400000000000]`} {
		got := mustRead(t, open(t, content), parquet.ReadOptions{Fields: ids(1), Schema: of(kind)})
		requireEqual(t, column(t, of(kind), values), got)
	}
	for _, kind := range []arrow.DataType{
		arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Date32, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary,
		&arrow.FixedSizeBinaryType{ByteWidth: 12}, &arrow.TimestampType{Unit: arrow.Millisecond}, list(micros, true),
	} {
		_, err := open(t, content).Read(t.Context(), parquet.ReadOptions{Fields: ids(1), Schema: of(kind)})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s", kind)
		require.ErrorContains(t, err, "is stored as int96")
	}

	far := handmade(t, schema.FieldList{int96("c", optional, 1)}, leafPages{[]int16{1, 0, 1}, nil, []int64{epoch, 1 << 30}})
	_, err := read(t, open(t, far), parquet.ReadOptions{Fields: ids(1), Schema: of(micros)})
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "column c holds a time, stored as the bytes 000000000000000000000040, that is out of range for timestamp[us]")

	lists := handmade(t, schema.FieldList{
		group("l", optional, schema.NewListLogicalType(), 1, int96("array", repeated, 2)), int96("r", required, 3),
	}, leafPages{[]int16{0, 1, 2, 2}, []int16{0, 0, 0, 1}, []int64{epoch, epoch + 2}}, leafPages{nil, nil, []int64{epoch, epoch + 1, epoch}})
	sc := arrow.NewSchema([]arrow.Field{nullable("l", list(micros, false)), {Name: "r", Type: micros}}, nil)
	got := mustRead(t, open(t, lists), parquet.ReadOptions{Fields: []int{1, 3}, Schema: sc})
	requireEqual(t, table(t, sc, `[{"l": null, "r": 0}, {"l": [], "r": 86400000000}, {"l": [0, 172800000000], "r": 0}]`), got)
}

// TestUnknownCodecsAndEncodings expects that these are refused by name before anything is
// read.
func TestUnknownCodecsAndEncodings(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	page := parquettest.Page{Values: 1, Plain: 8, Body: make([]byte, 8)}
	for message, codes := range map[string][2]int32{
		"column v is compressed with LZO, which this version does not read":     {3, 0},
		"column v has encoding 11, which this version does not support":         {0, 11},
		"column v is compressed with <UNSET>, which this version does not read": {99, 0},
	} {
		page.Encoding = codes[1]
		h := parquettest.Handmade{Rows: 1, Values: 1, Codec: codes[0], Plain: 8, Pages: []parquettest.Page{page}}
		_, err := open(t, h.Content()).Read(t.Context(), parquet.ReadOptions{Fields: ids(1), Schema: sc})
		require.ErrorContains(t, err, message)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.NotEmpty(t, fault.As(err).Remedy)
	}
}
