package parquet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

func list(t arrow.DataType, nullable bool) arrow.DataType {
	return arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: nullable})
}

// typed is a type with three values in JSON.
type typed struct {
	kind   arrow.DataType
	values []string
}

// column makes rows of the values in turn, with nulls between them if nullable.
func (c typed) column(t *testing.T, nullable bool) arrow.RecordBatch {
	t.Helper()
	var rows []string
	for i := range 50 {
		rows = append(rows, fmt.Sprintf(`{"c":%s}`, c.values[i%3]))
		if nullable && i%4 == 0 {
			rows = append(rows, `{"c":null}`)
		}
	}
	return table(t, arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.kind, Nullable: nullable}}, nil), "["+strings.Join(rows, ",")+"]")
}

// cases has a column of every type.
func cases() map[string]typed {
	micros := func(zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone}
	}
	nanos := func(zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone}
	}
	pair := arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "c", Type: list(arrow.PrimitiveTypes.Float32, true), Nullable: true})
	return map[string]typed{
		"bool":      {arrow.FixedWidthTypes.Boolean, []string{"true", "false", "true"}},
		"int32":     {arrow.PrimitiveTypes.Int32, []string{"1", "-2147483648", "2147483647"}},
		"int64":     {arrow.PrimitiveTypes.Int64, []string{"1", "-9223372036854775808", "9223372036854775807"}},
		"float32":   {arrow.PrimitiveTypes.Float32, []string{"1.5", "-0.25", "3e38"}},
		"float64":   {arrow.PrimitiveTypes.Float64, []string{"1.5", "-0.25", "1e308"}},
		"string":    {arrow.BinaryTypes.String, []string{`""`, `"ä\u0000b"`, `"long ` + strings.Repeat("x", 300) + `"`}},
		"binary":    {arrow.BinaryTypes.Binary, []string{`""`, `"AAH/"`, `"/w=="`}},
		"fixed":     {&arrow.FixedSizeBinaryType{ByteWidth: 3}, []string{`"AAH/"`, `"AAAA"`, `"////"`}},
		"decimal9":  {&arrow.Decimal128Type{Precision: 9, Scale: 2}, []string{`"1.25"`, `"-9999999.99"`, `"9999999.99"`}},
		"decimal18": {&arrow.Decimal128Type{Precision: 18, Scale: 0}, []string{`"1"`, `"-999999999999999999"`, `"7"`}},
		"decimal38": {&arrow.Decimal128Type{Precision: 38, Scale: 10}, []string{`"1.25"`, `"-12345678901234567890.5"`, `"0"`}},
		"date":      {arrow.FixedWidthTypes.Date32, []string{`"1969-12-31"`, `"2024-02-29"`, `"9999-12-31"`}},
		"time":      {arrow.FixedWidthTypes.Time64us, []string{`"00:00:00.000001"`, `"23:59:59.999999"`, `"12:00:00"`}},
		"micros":    {micros(""), []string{`"1969-12-31T23:59:59.999999"`, `"2024-02-29T12:00:00"`, `"1970-01-01T00:00:00"`}},
		"microsUTC": {micros("UTC"), []string{`"1969-12-31T23:59:59.999999Z"`, `"2024-02-29T12:00:00Z"`, `"1970-01-01T00:00:00Z"`}},
		"nanos":     {nanos(""), []string{`"1969-12-31T23:59:59.999999999"`, `"2024-02-29T12:00:00"`, `"1970-01-01T00:00:00"`}},
		"nanosUTC":  {nanos("UTC"), []string{`"1969-12-31T23:59:59.999999999Z"`, `"2024-02-29T12:00:00Z"`, `"1970-01-01T00:00:00Z"`}},
		"list":      {list(arrow.PrimitiveTypes.Int64, false), []string{"[]", "[1]", "[2,3,4]"}},
		"listNulls": {list(arrow.BinaryTypes.String, true), []string{"[]", "[null]", `["a",null,"b"]`}},
		"listLists": {list(list(arrow.FixedWidthTypes.Date32, true), true), []string{"[]", "[null,[]]", `[["1999-01-01",null]]`}},
		"struct":    {pair, []string{`{"a":1,"b":"x","c":[1.5,null]}`, `{"a":2,"b":null,"c":null}`, `{"a":3,"b":"","c":[]}`}},
		"listPairs": {list(pair, true), []string{"[]", `[{"a":1,"b":"x","c":[1]},null]`, `[{"a":2,"b":null,"c":null}]`}},
		"map": {
			arrow.MapOfFields(arrow.Field{Name: "key", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true}),
			[]string{"[]", `[{"key":"a","value":1.5}]`, `[{"key":"b","value":null},{"key":"","value":-1}]`},
		},
	}
}

func TestTypesRoundTrip(t *testing.T) {
	for name, c := range cases() {
		for _, nullable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s nullable=%t", name, nullable), func(t *testing.T) {
				want := c.column(t, nullable)
				sc := want.Schema()
				for form, opts := range map[string]parquettest.Options{
					"default":  {},
					"small":    {RowGroupRows: 20, Plain: true, Codec: parquettest.Snappy, PageV2: true, PageIndex: true},
					"integers": {DecimalAsInteger: true, Codec: parquettest.Uncompressed, PageBytes: 64},
				} {
					f := open(t, write(t, opts, want))
					require.True(t, f.HasFieldIDs())
					for _, batchRows := range []int{0, 1, 7} {
						got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc, BatchRows: batchRows, Cores: cores.New(2)})
						require.True(t, got.Schema().Equal(sc), "%s: %s", form, got.Schema())
						requireEqual(t, want, got)
					}
				}
			})
		}
	}
}

func TestUUIDIsFixed(t *testing.T) {
	uuid := arrow.NewSchema([]arrow.Field{{Name: "u", Type: extensions.NewUUIDType(), Nullable: true}}, nil)
	written := table(t, uuid, `[{"u":"f79c3e09-677c-4bbd-a479-3f349cb785e7"},{"u":null}]`)
	want := arrow.NewSchema([]arrow.Field{{Name: "u", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16}, Nullable: true}}, nil)
	got := mustRead(t, open(t, write(t, parquettest.Options{}, written)), parquet.ReadOptions{Fields: []int{1}, Schema: want})
	require.True(t, got.Schema().Equal(want))
	requireEqual(t, table(t, want, `[{"u":"95w+CWd8S72keT80nLeF5w=="},{"u":null}]`), got)
}

// TestConvertedTypes reads the same values from files with other types than the table's.
//
// spec: resolve-48, resolve-45
func TestConvertedTypes(t *testing.T) {
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	optional := func(name string, kind arrow.DataType, id string) arrow.Field {
		f := arrow.Field{Name: name, Type: kind, Nullable: true}
		if id != "" {
			f.Metadata = arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{id})
		}
		return f
	}
	for name, c := range map[string]struct {
		stored, want         arrow.DataType
		storedJSON, wantJSON string
	}{
		"large string":         {arrow.BinaryTypes.LargeString, arrow.BinaryTypes.String, `["a",null]`, `["a",null]`},
		"large list":           {arrow.LargeListOf(arrow.PrimitiveTypes.Int64), list(arrow.PrimitiveTypes.Int64, true), `[[1],null]`, `[[1],null]`},
		"list of items":        {arrow.ListOf(arrow.PrimitiveTypes.Int64), list(arrow.PrimitiveTypes.Int64, false), `[[1],[]]`, `[[1],[]]`},
		"zone's name":          {stamp(arrow.Microsecond, "UTC"), stamp(arrow.Microsecond, "+00:00"), `[1,null]`, `[1,null]`},
		"other zone":           {stamp(arrow.Microsecond, "Europe/Berlin"), stamp(arrow.Microsecond, "UTC"), `[1,null]`, `[1,null]`},
		"millis":               {stamp(arrow.Millisecond, "UTC"), stamp(arrow.Microsecond, "UTC"), `[1,null,-7]`, `[1000,null,-7000]`},
		"whole nanos":          {stamp(arrow.Nanosecond, ""), stamp(arrow.Microsecond, ""), `[1000,null,-7000]`, `[1,null,-7]`},
		"int to long":          {arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, `[1,null,-2147483648]`, `[1,null,-2147483648]`},
		"float to double":      {arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, `[0.5,null,-3]`, `[0.5,null,-3]`},
		"wider decimal":        {&arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 30, Scale: 2}, `["1.25",null]`, `["1.25",null]`},
		"date to timestamp":    {arrow.FixedWidthTypes.Date32, stamp(arrow.Microsecond, ""), `["1970-01-02",null,"1969-12-31","0001-01-01","9999-12-31"]`, `[86400000000,null,-86400000000,-62135596800000000,253402214400000000]`},
		"date to nanos":        {arrow.FixedWidthTypes.Date32, stamp(arrow.Nanosecond, ""), `["1970-01-02",null,"1677-09-22"]`, `[86400000000000,null,-9223286400000000000]`},
		"dates in lists":       {arrow.ListOf(arrow.FixedWidthTypes.Date32), list(stamp(arrow.Microsecond, ""), true), `[["1970-01-02",null],null,[]]`, `[[86400000000,null],null,[]]`},
		"int to long in lists": {arrow.ListOf(arrow.PrimitiveTypes.Int32), list(arrow.PrimitiveTypes.Int64, true), `[[1,null],null,[],[-3]]`, `[[1,null],null,[],[-3]]`},
		"struct fields by id": {
			arrow.StructOf(optional("a", arrow.PrimitiveTypes.Int32, ""), optional("b", arrow.BinaryTypes.String, ""), optional("c", arrow.PrimitiveTypes.Float32, "")), // 2, 3, 4
			arrow.StructOf(optional("new", arrow.PrimitiveTypes.Int64, "9"), optional("x", arrow.PrimitiveTypes.Float64, "4"), optional("y", arrow.PrimitiveTypes.Int64, "2")),
			`[{"a":1,"b":"s","c":0.5},null,{"a":null,"b":"t","c":2}]`, `[{"new":null,"x":0.5,"y":1},null,{"new":null,"x":2,"y":null}]`,
		},
		"to nanos": {stamp(arrow.Microsecond, ""), stamp(arrow.Nanosecond, ""), `[1,null,-7]`, `[1000,null,-7000]`},
	} {
		t.Run(name, func(t *testing.T) {
			rows := func(kind arrow.DataType, values string) arrow.RecordBatch {
				sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: kind, Nullable: true}}, nil)
				return column(t, sc, values)
			}
			want := rows(c.want, c.wantJSON)
			f := open(t, write(t, parquettest.Options{}, rows(c.stored, c.storedJSON)))
			got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: want.Schema()})
			require.True(t, arrow.TypeEqual(got.Schema().Field(0).Type, c.want), "%s", got.Schema())
			requireEqual(t, want, got)
		})
	}
}

func TestRefusedTypes(t *testing.T) {
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	for name, c := range map[string]struct {
		stored, want arrow.DataType
		message      string
	}{
		"long to int":      {arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, "does not read as int32"},
		"string to int":    {arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32, "does not read"},
		"other scale":      {&arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 12, Scale: 3}, "does not read"},
		"other width":      {&arrow.FixedSizeBinaryType{ByteWidth: 4}, &arrow.FixedSizeBinaryType{ByteWidth: 5}, "does not read"},
		"unsigned to long": {arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, "is stored as uint32, which this version does not read as int64"},
		"unsigned longs":   {arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64, "does not read"},
		"short to double":  {arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float64, "is stored as int32, which this version does not read as float64"},
		"long to date":     {arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Date32, "does not read"},
		"int to timestamp": {arrow.PrimitiveTypes.Int32, stamp(arrow.Microsecond, ""), "does not read"},
		"long to nanos":    {arrow.PrimitiveTypes.Int64, stamp(arrow.Nanosecond, ""), "does not read"},
		"long to time":     {arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Time64us, "does not read"},
		"timestamp, long":  {stamp(arrow.Microsecond, "UTC"), arrow.PrimitiveTypes.Int64, "does not read"},
		"date to int":      {arrow.FixedWidthTypes.Date32, arrow.PrimitiveTypes.Int32, "does not read"},
		"time to long":     {arrow.FixedWidthTypes.Time64us, arrow.PrimitiveTypes.Int64, "does not read"},
		"bytes to text":    {arrow.BinaryTypes.Binary, arrow.BinaryTypes.String, "does not read"},
		"text to bytes":    {arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, "does not read"},
		"half to binary":   {arrow.FixedWidthTypes.Float16, arrow.BinaryTypes.Binary, "does not read"},
		"nulls or lists":   {arrow.Null, list(arrow.PrimitiveTypes.Int32, true), "does not read"},
		"nulls or structs": {arrow.Null, arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), "does not read"},
		"date or UTC":      {arrow.FixedWidthTypes.Date32, stamp(arrow.Microsecond, "UTC"), "is stored as date32, which this version does not read as timestamp[us, tz=UTC]"},
		"date or millis":   {arrow.FixedWidthTypes.Date32, stamp(arrow.Millisecond, ""), "does not read"},
		"bytes or INT96":   {&arrow.FixedSizeBinaryType{ByteWidth: 12}, stamp(arrow.Microsecond, ""), "does not read"},
		"time or not":      {arrow.FixedWidthTypes.Time64us, stamp(arrow.Microsecond, ""), "does not read"},
		"list or not":      {arrow.PrimitiveTypes.Int64, list(arrow.PrimitiveTypes.Int64, true), "does not read"},
		"struct fields": {
			arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}),
			arrow.StructOf(arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), "without field ids",
		},
		"a list's other element": {
			arrow.ListOf(arrow.PrimitiveTypes.Int32),
			arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int32, Nullable: true, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{"9"})}),
			"column c.element has field id 2 in the file, 9 in the table",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.stored, Nullable: true}}, nil)
			f := open(t, write(t, parquettest.Options{}, column(t, stored, `[null]`)))
			want := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.want, Nullable: true}}, nil)
			_, err := f.Read(t.Context(), parquet.ReadOptions{Fields: []int{1}, Schema: want})
			require.ErrorContains(t, err, c.message)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.Equal(t, location, fault.As(err).File)
			require.NotEmpty(t, fault.As(err).Remedy)
		})
	}
}

func TestNanosAreNotRounded(t *testing.T) {
	kind := func(unit arrow.TimeUnit) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: "c", Type: &arrow.TimestampType{Unit: unit}, Nullable: true}}, nil)
	}
	f := open(t, write(t, parquettest.Options{}, column(t, kind(arrow.Nanosecond), `[1000,1001]`)))
	_, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: kind(arrow.Microsecond)})
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1001")
	require.Equal(t, 0, *fault.As(err).RowGroup)
}

// TestDatesOutOfNanosecondRange expects an error for dates that overflow a timestamp in
// nanoseconds.
func TestDatesOutOfNanosecondRange(t *testing.T) {
	sc := func(kind arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: "c", Type: kind, Nullable: true}}, nil)
	}
	for _, day := range []string{"1677-09-21", "2262-04-12"} {
		f := open(t, write(t, parquettest.Options{}, column(t, sc(arrow.FixedWidthTypes.Date32), fmt.Sprintf(`["2000-01-01",%q]`, day))))
		_, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc(&arrow.TimestampType{Unit: arrow.Nanosecond})})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "is out of range for")
	}
}

func TestRequiredColumnWithNulls(t *testing.T) {
	pair := func(nullable bool) arrow.DataType {
		return arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: nullable})
	}
	for name, c := range map[string]struct {
		stored, want   arrow.DataType
		nullable       bool
		values, broken string
	}{
		"column":           {arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64, false, `[1,2]`, `[1,null]`},
		"list":             {arrow.ListOf(arrow.PrimitiveTypes.Int64), list(arrow.PrimitiveTypes.Int64, true), false, `[[null]]`, `[null]`},
		"element":          {arrow.ListOf(arrow.PrimitiveTypes.Int64), list(arrow.PrimitiveTypes.Int64, false), true, `[[1],null]`, `[[1,null]]`},
		"field":            {pair(true), pair(false), true, `[{"a":1},null]`, `[{"a":null},null]`},
		"field of element": {arrow.ListOf(pair(true)), list(pair(false), true), true, `[[{"a":1},null],null]`, `[[{"a":null}]]`},
	} {
		t.Run(name, func(t *testing.T) {
			stored := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.stored, Nullable: true}}, nil)
			want := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.want, Nullable: c.nullable}}, nil)
			opts := parquet.ReadOptions{Fields: []int{1}, Schema: want}
			requireEqual(t, column(t, want, c.values), mustRead(t, open(t, write(t, parquettest.Options{}, column(t, stored, c.values))), opts))
			_, err := read(t, open(t, write(t, parquettest.Options{}, column(t, stored, c.broken))), opts)
			require.ErrorContains(t, err, "has nulls")
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.Equal(t, location, fault.As(err).File)
		})
	}
}

func column(t testing.TB, sc *arrow.Schema, values string) arrow.RecordBatch {
	t.Helper()
	arr, err := fromJSON(sc.Field(0).Type, values)
	require.NoError(t, err)
	return single(sc, arr)
}
