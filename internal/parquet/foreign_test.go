package parquet_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// foreign is a column of a type that Iceberg does not write, and the same column in a
// table.
type foreign struct {
	stored, want         arrow.DataType
	storedJSON, wantJSON string
	lower, upper         any // in the terms of Statistics
}

// foreigners are the promotions that Spark makes on read, and those of times whose
// annotation is unambiguous.
func foreigners() map[string]foreign {
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	decimal := func(precision int32) arrow.DataType { return &arrow.Decimal128Type{Precision: precision, Scale: 2} }
	i8, i16, i32, i64 := arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64
	date, time := arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us
	same := func(stored, want arrow.DataType, values string, lower, upper int64) foreign {
		return foreign{stored, want, values, values, lower, upper}
	}
	return map[string]foreign{
		"byte to int":           same(i8, i32, `[-128,null,127,0,-1]`, -128, 127),
		"byte to long":          same(i8, i64, `[-128,null,127,0,-1]`, -128, 127),
		"short to int":          same(i16, i32, `[-32768,null,32767,0,-1]`, -32768, 32767),
		"short to long":         same(i16, i64, `[-32768,null,32767,0,-1]`, -32768, 32767),
		"unsigned byte to int":  same(arrow.PrimitiveTypes.Uint8, i32, `[255,null,0,128]`, 0, 255),
		"unsigned short":        same(arrow.PrimitiveTypes.Uint16, i64, `[65535,null,0,32768]`, 0, 65535),
		"int to date":           {i32, date, `[0,null,-719162,2932896]`, `["1970-01-01",null,"0001-01-01","9999-12-31"]`, int64(-719162), int64(2932896)},
		"short to date":         {i16, date, `[0,null,-1]`, `["1970-01-01",null,"1969-12-31"]`, int64(-1), int64(0)},
		"long to timestamp":     same(i64, stamp(arrow.Microsecond, ""), `[-62135596800000000,null,253402300799999999,-1]`, -62135596800000000, 253402300799999999),
		"long to instant":       same(i64, stamp(arrow.Microsecond, "UTC"), `[5,null,-7]`, -7, 5),
		"local to instant":      same(stamp(arrow.Microsecond, ""), stamp(arrow.Microsecond, "UTC"), `[5,null,-7]`, -7, 5),
		"instant to local":      same(stamp(arrow.Microsecond, "UTC"), stamp(arrow.Microsecond, ""), `[5,null,-7]`, -7, 5),
		"local millis":          {stamp(arrow.Millisecond, ""), stamp(arrow.Microsecond, "UTC"), `[5,null,-7]`, `[5000,null,-7000]`, int64(-7000), int64(5000)},
		"millis":                {stamp(arrow.Millisecond, "UTC"), stamp(arrow.Microsecond, ""), `[5,null,-7]`, `[5000,null,-7000]`, int64(-7000), int64(5000)},
		"local nanos":           {stamp(arrow.Nanosecond, ""), stamp(arrow.Microsecond, "UTC"), `[5000,null,-7000]`, `[5,null,-7]`, int64(-7), int64(5)},
		"instant to local nano": {stamp(arrow.Nanosecond, "UTC"), stamp(arrow.Nanosecond, ""), `[5000,null,-7000]`, `[5000,null,-7000]`, int64(-7), int64(5)},
		"time of millis":        {arrow.FixedWidthTypes.Time32ms, time, `["00:00:00.001",null,"23:59:59.999"]`, `["00:00:00.001",null,"23:59:59.999"]`, int64(1000), int64(86399999000)},
		"time of nanos":         {arrow.FixedWidthTypes.Time64ns, time, `["00:00:00.000001",null,"23:59:59.999999"]`, `["00:00:00.000001",null,"23:59:59.999999"]`, int64(1), int64(86399999999)},
		"narrower decimal":      {decimal(18), decimal(9), `["-1.25",null,"9999999.99"]`, `["-1.25",null,"9999999.99"]`, big.NewInt(-125), big.NewInt(999999999)},
		"narrowest decimal":     {decimal(38), decimal(3), `["-9.99",null,"9.99"]`, `["-9.99",null,"9.99"]`, big.NewInt(-999), big.NewInt(999)},
		"uuid to binary":        {extensions.NewUUIDType(), arrow.BinaryTypes.Binary, `["00010203-0405-0607-0809-0a0b0c0d0e0f",null,"ff010203-0405-0607-0809-0a0b0c0d0e0f"]`, `["AAECAwQFBgcICQoLDA0ODw==",null,"/wECAwQFBgcICQoLDA0ODw=="]`, []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"), []byte("\xff\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")},
		"fixed to binary":       {&arrow.FixedSizeBinaryType{ByteWidth: 2}, arrow.BinaryTypes.Binary, `["AAE=",null,"//8="]`, `["AAE=",null,"//8="]`, []byte{0, 1}, []byte{255, 255}},
	}
}

// TestForeignTypes reads such columns, alone and in lists and structs, in pages of every
// form, and their statistics in the table's units.
//
// spec: resolve-66, resolve-67, resolve-68
func TestForeignTypes(t *testing.T) {
	t.Parallel()
	for name, c := range foreigners() {
		for form, opts := range map[string]parquettest.Options{
			"default": {},
			"small":   {RowGroupRows: 2, Plain: true, Codec: parquettest.Snappy, PageV2: true, PageIndex: true},
			"indexed": {DecimalAsInteger: true, Codec: parquettest.Uncompressed, PageBytes: 16, PageIndex: true},
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				c.check(t, opts, func(dt arrow.DataType) arrow.DataType { return dt }, func(values string) string { return values })
				c.check(t, opts, func(dt arrow.DataType) arrow.DataType { return list(dt, true) }, func(values string) string {
					return "[[],null," + values + "," + values + "]"
				})
				c.check(t, opts, func(dt arrow.DataType) arrow.DataType {
					return arrow.StructOf(arrow.Field{Name: "a", Type: dt, Nullable: true})
				}, func(values string) string {
					var all []json.RawMessage
					require.NoError(t, json.Unmarshal([]byte(values), &all))
					rows := []string{"null"}
					for _, v := range all {
						rows = append(rows, fmt.Sprintf(`{"a":%s}`, v))
					}
					return "[" + strings.Join(rows, ",") + ",null]"
				})
				c.checkStatistics(t, opts)
			})
		}
	}
}

// check reads the column inside another type.
func (c foreign) check(t *testing.T, opts parquettest.Options, within func(arrow.DataType) arrow.DataType, values func(string) string) {
	t.Helper()
	sc := func(dt arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: "c", Type: within(dt), Nullable: true}}, nil)
	}
	want := column(t, sc(c.want), values(c.wantJSON))
	f := open(t, write(t, opts, column(t, sc(c.stored), values(c.storedJSON))))
	for _, rows := range []int{0, 1, 2} {
		got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: want.Schema(), BatchRows: rows})
		require.True(t, arrow.TypeEqual(got.Schema().Field(0).Type, within(c.want)), "%s", got.Schema())
		requireEqual(t, want, got)
	}
}

// checkStatistics compares the statistics of the footer, and of the page index if there
// is one, over all row groups.
func (c foreign) checkStatistics(t *testing.T, opts parquettest.Options) {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.stored, Nullable: true}}, nil)
	opts.RowGroupRows = 0
	f := open(t, write(t, opts, column(t, sc, c.storedJSON)))
	got, ok := f.Statistics(0, 1, c.want)
	require.True(t, ok)
	require.Equal(t, []any{c.lower, c.upper, int64(1)}, []any{got.Lower, got.Upper, got.Nulls})
	if !opts.PageIndex {
		return
	}
	got, err := f.PageStatistics(t.Context(), 0, 1, c.want, nil)
	require.NoError(t, err)
	require.Equal(t, []any{c.lower, c.upper, int64(1)}, []any{got.Lower, got.Upper, got.Nulls})
}

// TestForeignValuesThatDoNotFit expects an error for values that the table's type cannot
// hold, instead of rounding.
//
// spec: resolve-67, resolve-68
func TestForeignValuesThatDoNotFit(t *testing.T) {
	t.Parallel()
	decimal := func(precision int32) arrow.DataType { return &arrow.Decimal128Type{Precision: precision, Scale: 2} }
	instant := func(unit arrow.TimeUnit) arrow.DataType { return &arrow.TimestampType{Unit: unit, TimeZone: "UTC"} }
	for name, c := range map[string]struct {
		stored, want  arrow.DataType
		values, error string
		remedy        string
	}{
		"time of nanos":       {arrow.FixedWidthTypes.Time64ns, arrow.FixedWidthTypes.Time64us, `["12:00:00",null,"00:00:00.000001999"]`, "column c holds 1999 in a unit that time64[us] cannot represent exactly", "in the unit of time64[us]"},
		"nanos before 1970":   {&arrow.TimestampType{Unit: arrow.Nanosecond}, instant(arrow.Microsecond), `[1000,-1]`, "column c holds -1 in a unit that timestamp[us, tz=UTC] cannot represent exactly", "in the unit of timestamp[us, tz=UTC]"},
		"millis out of range": {&arrow.TimestampType{Unit: arrow.Millisecond}, instant(arrow.Microsecond), `[4611686018427387904]`, "column c holds 4611686018427387904 in a unit", "out of range for timestamp[us, tz=UTC]"},
		"one digit too many":  {decimal(18), decimal(9), `["1.00",null,"10000000.00"]`, "column c holds 10000000.00, which does not fit in decimal(9, 2)", "more digits"},
		"negative, one digit": {decimal(38), decimal(2), `["-1.00"]`, "column c holds -1.00, which does not fit in decimal(2, 2)", "more digits"},
		"one digit in lists":  {list(decimal(18), true), list(decimal(9), true), `[[],["1.00"],["10000000.00",null]]`, "column c.element holds 10000000.00", "more digits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := func(dt arrow.DataType) *arrow.Schema {
				return arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true}}, nil)
			}
			f := open(t, write(t, parquettest.Options{}, column(t, sc(c.stored), c.values)))
			_, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc(c.want)})
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.error)
			require.Equal(t, location, fault.As(err).File)
			require.Contains(t, fault.As(err).Remedy, c.remedy)
		})
	}
}

// TestAllNullColumns reads columns that a tool left untyped, because it saw only nulls:
// they are null in a column of any primitive type. It is an error if the table does not
// allow nulls.
//
// spec: resolve-69
func TestAllNullColumns(t *testing.T) {
	t.Parallel()
	nulls := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.Null, Nullable: true}, {Name: "s", Type: arrow.StructOf(arrow.Field{Name: "a", Type: arrow.Null, Nullable: true}, nullable("b", arrow.PrimitiveTypes.Int64)), Nullable: true}, {Name: "l", Type: list(arrow.Null, true), Nullable: true}}, nil)
	file := write(t, parquettest.Options{}, table(t, nulls, `[{"c":null,"s":{"a":null,"b":1},"l":[]},{"c":null,"s":null,"l":null},{"c":null,"s":{"a":null,"b":null},"l":[null,null]}]`))
	for name, c := range cases() {
		if arrow.IsNested(c.kind.ID()) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.kind, Nullable: true}, {Name: "s", Type: arrow.StructOf(nullable("a", c.kind), nullable("b", arrow.PrimitiveTypes.Int64)), Nullable: true}, {Name: "l", Type: list(c.kind, true), Nullable: true}}, nil)
			f := open(t, file)
			for _, rows := range []int{0, 1, 2} {
				got := mustRead(t, f, parquet.ReadOptions{Fields: []int{1, 2, 3}, Schema: want, BatchRows: rows})
				requireEqual(t, table(t, want, `[{"c":null,"s":{"a":null,"b":1},"l":[]},{"c":null,"s":null,"l":null},{"c":null,"s":{"a":null,"b":null},"l":[null,null]}]`), got)
			}
			required := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.kind}}, nil)
			_, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: required})
			require.ErrorContains(t, err, "required column c has nulls")
		})
	}
}

func TestValuesInAllNullColumn(t *testing.T) {
	t.Parallel()
	node, err := schema.NewPrimitiveNodeLogical("c", arrowparquet.Repetitions.Optional, schema.NullLogicalType{}, arrowparquet.Types.Int64, -1, 1)
	require.NoError(t, err)
	content := handmade(t, schema.FieldList{node}, leafPages{definition: []int16{0, 1, 0}, values: []int64{7}})
	want := arrow.NewSchema([]arrow.Field{nullable("c", arrow.PrimitiveTypes.Int64)}, nil)
	_, err = read(t, open(t, content), parquet.ReadOptions{Fields: []int{1}, Schema: want})
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "column c is annotated to be all null, but has values")
}

// TestNanosecondTimesNeedProof expects that an annotation of nanoseconds alone is not
// trusted: flipping a bit of a footer turns it into microseconds.
//
// spec: resolve-67
func TestNanosecondTimesNeedProof(t *testing.T) {
	t.Parallel()
	sc := func(dt arrow.DataType) *arrow.Schema { return arrow.NewSchema([]arrow.Field{nullable("c", dt)}, nil) }
	stored, want := arrow.FixedWidthTypes.Time64ns, arrow.FixedWidthTypes.Time64us
	for name, c := range map[string]struct {
		values string
		opts   parquettest.Options
		read   bool
	}{
		"early times":                      {`["00:01:26.399999",null,"00:00:00.000001"]`, parquettest.Options{}, false},
		"midnight":                         {`["00:00:00",null]`, parquettest.Options{}, true},
		"a late time":                      {`["00:01:26.4",null,"00:00:00.000001"]`, parquettest.Options{}, true},
		"a late time in another row group": {`["00:00:01","00:00:02","23:00:00"]`, parquettest.Options{RowGroupRows: 1}, true},
		"without statistics":               {`["23:00:00"]`, parquettest.Options{NoStatistics: true}, false},
		"nulls":                            {`[null,null]`, parquettest.Options{}, true},
		"nulls, then early times":          {`[null,"00:00:01"]`, parquettest.Options{RowGroupRows: 1}, false},
		"no rows":                          {`[]`, parquettest.Options{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, write(t, c.opts, column(t, sc(stored), c.values)))
			got, err := read(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc(want)})
			if c.read {
				require.NoError(t, err)
				requireEqual(t, column(t, sc(want), c.values), got)
				return
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "column c is annotated as times in nanoseconds, but the file's statistics do not prove it")
		})
	}
}

// TestDuplicateFieldIDs expects that a column whose id is ambiguous is refused.
func TestDuplicateFieldIDs(t *testing.T) {
	t.Parallel()
	optional := arrowparquet.Repetitions.Optional
	page := leafPages{definition: []int16{1}, values: []int64{7}}
	content := handmade(t, schema.FieldList{long64(t, "a", optional, 1), long64(t, "b", optional, 1), long64(t, "c", optional, 2)}, page, page, page)
	want := arrow.NewSchema([]arrow.Field{nullable("c", arrow.PrimitiveTypes.Int64)}, nil)
	_, err := open(t, content).Read(t.Context(), parquet.ReadOptions{Fields: []int{1}, Schema: want})
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the footer has field id 1 for two columns")
	mustRead(t, open(t, content), parquet.ReadOptions{Fields: []int{2}, Schema: want})
}
