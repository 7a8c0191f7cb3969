package parquet_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// laterSchema has a column of each kind that a later version of the format may annotate.
func laterSchema() *arrow.Schema {
	var fields []arrow.Field
	for _, f := range []arrow.Field{
		{Name: "iiii", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "int4", Type: arrow.PrimitiveTypes.Int32},
		{Name: "stam", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{Name: "list", Type: list(arrow.PrimitiveTypes.Int64, true)},
		{Name: "flot", Type: arrow.PrimitiveTypes.Float64},
		{Name: "bina", Type: arrow.BinaryTypes.Binary},
	} {
		f.Nullable = true
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

func laterRows(t *testing.T) arrow.RecordBatch {
	t.Helper()
	return table(t, laterSchema(), `[
		{"iiii": 1, "text": "a", "int4": 7, "stam": 5, "list": [1, null], "flot": 0.5, "bina": "QUFB"},
		{"iiii": null, "text": null, "int4": null, "stam": null, "list": null, "flot": null, "bina": null},
		{"iiii": -9, "text": "ä", "int4": -8, "stam": 6, "list": [], "flot": -1, "bina": "QQ=="}]`)
}

// edited replaces bytes of a footer.
func edited(t *testing.T, content []byte, pairs ...string) []byte {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		var err error
		content, err = parquettest.EditFooter(content, pairs[i], pairs[i+1])
		require.NoError(t, err)
	}
	return content
}

// later is a logical type that no reader knows, as a member of the union of logical types.
const later = "\x1c\x0c\x46\x00\x00"

// as is a type, and the values of a column in it.
type as struct {
	kind   arrow.DataType
	values string
}

// TestUnknownTypes reads files in which a column has a type of a later version of the format: it is
// read as its physical type, or refused, and other columns are read as before.
//
// spec: resolve-125, resolve-126
func TestUnknownTypes(t *testing.T) {
	micros, nanos := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	i32, i64, f64 := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64
	text, binary := arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	for name, c := range map[string]struct {
		from, to string
		field    int
		reads    []as
		refuses  []arrow.DataType
	}{
		"long": {
			"\x18\x04iiii%$5\x02\x1c\xac\x13@\x11\x00\x00", "\x18\x04iiii%$5\x02" + later, 1,
			[]as{{i64, `[1, null, -9]`}},
			[]arrow.DataType{micros, nanos, i32, &arrow.Decimal128Type{Precision: 18}, f64},
		},
		"int": {
			"\x18\x04int4%\"5\x06\x1c\xac\x13 \x11\x00\x00", "\x18\x04int4%\"5\x06" + later, 3,
			[]as{{i32, `[7, null, -8]`}, {i64, `[7, null, -8]`}},
			[]arrow.DataType{arrow.FixedWidthTypes.Date32, micros, arrow.FixedWidthTypes.Time64us},
		},
		"text":            {"\x18\x04text%\x005\x04\x1c\x1c\x00\x00", "\x18\x04text%\x005\x04" + later, 2, []as{{binary, `["YQ==", null, "w6Q="]`}}, []arrow.DataType{text}},
		"text, converted": {"\x18\x04text%\x005\x04\x1c\x1c\x00\x00\x00", "\x18\x04text%\x545\x04\x00", 2, []as{{binary, `["YQ==", null, "w6Q="]`}}, []arrow.DataType{text}},
		"unit of a timestamp": {
			"\x18\x04stam%\x145\x08\x1c\x8c\x11\x1c,\x00\x00", "\x18\x04stam%\x145\x08\x1c\x8c\x11\x1c\x5c\x00\x00", 4,
			[]as{{i64, `[5, null, 6]`}},
			[]arrow.DataType{micros, nanos},
		},
		"double":    {"\x18\x04flotU\x0c\x00", "\x18\x04flotU\x0c" + later + "\x00", 6, []as{{f64, `[0.5, null, -1]`}}, []arrow.DataType{i64}},
		"physical":  {"\x15\x0a%\x02\x18\x04flot", "\x15\x2c%\x02\x18\x04flot", 6, nil, []arrow.DataType{f64, arrow.FixedWidthTypes.Boolean}},
		"geography": {"\x18\x04binaU\x0e\x00", "\x18\x04binaU\x0e\x1c\x0c\x24\x25\x54\x00\x00\x00", 7, []as{{binary, `["QUFB", null, "QQ=="]`}}, []arrow.DataType{text}},
		"list":      {"5\x0a\x1c<\x00\x00", "5\x0a" + later, 5, nil, []arrow.DataType{list(i64, true)}},
		"encoding":  {"\x195\x10\x00\x06\x19\x18\x04flot", "\x195\x10\x54\x06\x19\x18\x04flot", 6, nil, []arrow.DataType{f64}},
		"codec":     {"\x19\x18\x04flot\x15\x0c", "\x19\x18\x04flot\x15\x54", 6, nil, []arrow.DataType{f64}},
	} {
		t.Run(name, func(t *testing.T) {
			want, sc := laterRows(t), laterSchema()
			for _, opts := range []parquettest.Options{{PageIndex: true}, {PageIndex: true, RowGroupRows: 2, PageV2: true}} {
				f := open(t, edited(t, write(t, opts, want), c.from, c.to))
				for i, field := range sc.Fields() {
					if i+1 != c.field {
						only := arrow.NewSchema([]arrow.Field{field}, nil)
						got := mustRead(t, f, parquet.ReadOptions{Fields: []int{i + 1}, Schema: only})
						requireEqual(t, single(only, want.Column(i)), got)
					}
				}
				for _, c2 := range c.reads {
					only := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c2.kind, Nullable: true}}, nil)
					values, err := fromJSON(c2.kind, c2.values)
					require.NoError(t, err)
					requireEqual(t, single(only, values), mustRead(t, f, parquet.ReadOptions{Fields: []int{c.field}, Schema: only}))
					_, ok := f.Statistics(0, c.field, c2.kind)
					require.False(t, ok, "the order of the values is not known")
					_, ok = f.HasPageStatistics(0, c.field)
					require.False(t, ok)
				}
				for _, kind := range c.refuses {
					only := arrow.NewSchema([]arrow.Field{{Name: "c", Type: kind, Nullable: true}}, nil)
					_, err := read(t, f, parquet.ReadOptions{Fields: []int{c.field}, Schema: only})
					require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", kind, err)
					require.Equal(t, location, fault.As(err).File)
				}
			}
		})
	}
}

// TestUnknownElementsOfLists reads lists whose elements have a type of a later version.
func TestUnknownElementsOfLists(t *testing.T) {
	content := edited(t, write(t, parquettest.Options{}, laterRows(t)), "\x07element%$5\x10\x1c\xac\x13@\x11\x00\x00", "\x07element%$5\x10"+later)
	sc := func(of arrow.DataType) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: "list", Type: list(of, true), Nullable: true}}, nil)
	}
	got := mustRead(t, open(t, content), parquet.ReadOptions{Fields: []int{5}, Schema: sc(arrow.PrimitiveTypes.Int64)})
	requireEqual(t, single(sc(arrow.PrimitiveTypes.Int64), laterRows(t).Column(4)), got)
	_, err := read(t, open(t, content), parquet.ReadOptions{Fields: []int{5}, Schema: sc(&arrow.TimestampType{Unit: arrow.Microsecond})})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// TestLaterFooters reads files whose footers have fields, versions and orders of later versions of
// the format. Bounds in an unknown order are not used.
//
// spec: resolve-126, resolve-127
func TestLaterFooters(t *testing.T) {
	want, sc := laterRows(t), laterSchema()
	for _, opts := range []parquettest.Options{{PageIndex: true}, {RowGroupRows: 2, PageV2: true, Codec: parquettest.Snappy}} {
		plain := write(t, opts, want)
		for name, content := range map[string][]byte{
			"fields":  parquettest.WithUnknownFields(plain),
			"version": edited(t, plain, "\x15\x04\x19\xacH\x06schema", "\x15\x54\x19\xacH\x06schema"),
			"order":   edited(t, plain, "\x1c\x00\x00\x1c\x00\x00\x1c\x00\x00", "\x2c\x00\x00\x2c\x00\x00\x2c\x00\x00"),
		} {
			f := open(t, content)
			requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(7), Schema: sc}))
			s, ok := f.Statistics(0, 2, arrow.BinaryTypes.String)
			require.True(t, ok, name)
			require.Equal(t, name == "order", s.Lower == nil, name)
			_, ok = f.HasPageStatistics(0, 2)
			require.Equal(t, opts.PageIndex && name != "order", ok, name)
		}
	}
}

// TestPagesOfUnknownKinds skips pages of a kind of a later version.
//
// spec: resolve-127
func TestPagesOfUnknownKinds(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	numbers := func(n byte) []byte { return append([]byte{n}, make([]byte, 7)...) }
	for _, of := range []parquettest.Page{{}, {V2: &parquettest.PageV2{Rows: 1}}} {
		first, second := of, of
		first.Values, first.Plain, first.Body = 1, 8, numbers(1)
		second.Values, second.Plain, second.Body = 1, 8, numbers(2)
		strange := parquettest.Page{Kind: 9, Values: 1, Plain: 8, Body: numbers(3)}
		file := parquettest.Handmade{Rows: 2, Values: 2, Plain: 24, Pages: []parquettest.Page{strange, first, strange, second, strange}}
		f := open(t, file.Content())
		requireEqual(t, table(t, sc, `[{"v": 1}, {"v": 2}]`), mustRead(t, f, parquet.ReadOptions{Fields: []int{1}, Schema: sc}))
		file.Pages = []parquettest.Page{first, strange}
		_, err := read(t, open(t, file.Content()), parquet.ReadOptions{Fields: []int{1}, Schema: sc})
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "rows of a page that is skipped are missed")
	}
}
