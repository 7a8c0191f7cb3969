package scan_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
)

// one is an array of one value.
func one(t *testing.T, kind arrow.DataType, value string) arrow.Array {
	t.Helper()
	out, _, err := array.FromJSON(memory.DefaultAllocator, kind, strings.NewReader("["+value+"]"))
	require.NoError(t, err)
	return out
}

// withID is a nullable field as tables have them in structs.
func withID(id int, name string, kind arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: kind, Nullable: true, Metadata: arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(id)})}
}

// TestInitialDefaults checks that files from before a column have its initial default in
// every row, in every use of the column, and that files with the column have their own
// values.
//
// spec: resolve-70
func TestInitialDefaults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 4, 1)
	late := catalog.Field{ID: 8, Name: "late", Type: arrow.BinaryTypes.String, Required: true}
	r.table.Fields = append(r.table.Fields, late)
	r.table.Defaults = map[int]arrow.Array{8: one(t, late.Type, `"given"`)}
	rows := makeRows(10, 3, 1)
	r.add(array.NewRecordBatch(r.table.Schema(), append(rows.Columns(), r.texts("a", "given", "c")), 3), 1, parquettest.Options{})

	got := r.read(r.scanner(scan.Options{BatchRows: 3}), r.source(), r.columns("id", "late"))
	require.NoError(t, got.err)
	want := []string{}
	for i := range 10 {
		want = append(want, fmt.Sprint(i, " | given"))
	}
	require.Equal(t, append(want, "10 | a", "11 | given", "12 | c"), got.lines)

	for text, ids := range map[string][]string{
		"late = 'given' AND id > 7": {"8", "9", "11"},
		"late > 'given'":            {},
		"late < 'b'":                {"10"},
		"late IS NULL":              {},
		"late LIKE 'g%' AND id < 2": {"0", "1"},
		"NOT late = 'given'":        {"10", "12"},
	} {
		source := r.source()
		source.Filter = r.filter(text)
		got := r.read(r.scanner(scan.Options{}), source, r.columns("id"))
		require.NoError(t, got.err)
		require.Equal(t, ids, got.lines, text)
	}
}

func (r *rig) texts(values ...string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewArray()
}

// TestKeysByDefault: bucketed keys may be defaults, and are checked like others.
//
// spec: resolve-8, resolve-70
func TestKeysByDefault(t *testing.T) {
	t.Parallel()
	for b, fails := range map[int32]bool{2: false, 3: true} {
		r := newRig(t)
		key := longsOf(2, 1)[0]
		rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(r.table.Schema().Fields()[:1], nil), strings.NewReader(`[{"id":1},{"id":2}]`))
		require.NoError(t, err)
		r.add(rows, b, parquettest.Options{})
		r.table.Fields = append(r.table.Fields, catalog.Field{ID: 8, Name: "k", Type: arrow.PrimitiveTypes.Int64})
		r.table.Specs[0][0].Source = 8
		r.table.Defaults = map[int]arrow.Array{8: one(t, arrow.PrimitiveTypes.Int64, strconv.FormatInt(key, 10))}
		source := r.source()
		source.Checked = r.columns("k")
		got := r.read(r.scanner(scan.Options{}), source, r.columns("k", "id"))
		if fails {
			require.Equal(t, fault.Corrupt, fault.KindOf(got.err))
			require.ErrorContains(t, got.err, "the manifest says that the file is of bucket 3")
			continue
		}
		require.NoError(t, got.err)
		require.Equal(t, []string{fmt.Sprint(key, " | 1"), fmt.Sprint(key, " | 2")}, got.lines)
	}
}

// grown is a table with a column s: struct<a, in: struct<b>>, of which files have s.a
// alone, or nothing, and its defaults by field id: 20 is s, 21 a, 22 in, 23 b.
func grown(t *testing.T, files []string, defaults map[int]string) *rig {
	t.Helper()
	r := newRig(t)
	in := arrow.StructOf(withID(23, "b", arrow.BinaryTypes.String))
	s := arrow.StructOf(withID(21, "a", arrow.PrimitiveTypes.Int64), withID(22, "in", in))
	plainIn := arrow.StructOf(arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true})
	plain := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "in", Type: plainIn, Nullable: true})
	r.table.Fields = []catalog.Field{
		{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64, Required: true},
		{ID: 20, Name: "s", Type: plain, Stored: s},
	}
	r.table.Nested = []catalog.Field{
		{ID: 21, Name: "s.a", Type: arrow.PrimitiveTypes.Int64},
		{ID: 23, Name: "s.in.b", Type: arrow.BinaryTypes.String},
	}
	r.table.Specs = map[int]catalog.Spec{0: nil}
	r.table.Defaults = map[int]arrow.Array{}
	for id, kind := range map[int]arrow.DataType{20: plain, 21: arrow.PrimitiveTypes.Int64, 22: plainIn, 23: arrow.BinaryTypes.String} {
		if text, ok := defaults[id]; ok {
			r.table.Defaults[id] = one(t, kind, text)
		}
	}
	fields := map[string][]arrow.Field{
		"nothing": nil, "a": {withID(20, "s", arrow.StructOf(withID(21, "a", arrow.PrimitiveTypes.Int64)))},
		"in": {withID(20, "s", arrow.StructOf(withID(22, "in", arrow.StructOf(withID(29, "gone", arrow.ListOfField(withID(30, "element", arrow.PrimitiveTypes.Int64)))))))},
	}
	values := map[string][]string{
		"nothing": {`{"id":1}`, `{"id":2}`, `{"id":3}`},
		"a":       {`{"id":1,"s":{"a":5}}`, `{"id":2,"s":null}`, `{"id":3,"s":{"a":null}}`},
		"in":      {`{"id":1,"s":{"in":{"gone":[1,2]}}}`, `{"id":2,"s":null}`, `{"id":3,"s":{"in":null}}`},
	}
	for _, file := range files {
		schema := arrow.NewSchema(append([]arrow.Field{withID(1, "id", arrow.PrimitiveTypes.Int64)}, fields[file]...), nil)
		rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(values[file], ",")+"]"))
		require.NoError(t, err)
		r.addAsIs(rows, bucket.Null)
		r.list[len(r.list)-1].Partition = nil
	}
	return r
}

// TestDefaultsInStructs checks that a field has the default of the outermost field that a
// file lacks: the cases of the specification's table of struct defaults, and deeper ones.
//
// spec: resolve-71
func TestDefaultsInStructs(t *testing.T) {
	t.Parallel()
	both := map[int]string{20: `{"a":7,"in":{"b":"deep"}}`, 21: `7`, 22: `{"b":"deep"}`, 23: `"deep"`}
	for name, c := range map[string]struct {
		file     string
		defaults map[int]string
		whole    []string // of s
		a, b     []string
	}{
		"all of it": {
			"nothing", both,
			[]string{`{"a":7,"in":{"b":"deep"}}`, `{"a":7,"in":{"b":"deep"}}`, `{"a":7,"in":{"b":"deep"}}`},
			[]string{"7", "7", "7"},
			[]string{"deep", "deep", "deep"},
		},
		"a struct that is null": {
			"nothing",
			map[int]string{21: `7`, 22: `{"b":"deep"}`, 23: `"deep"`},
			[]string{"(null)", "(null)", "(null)"},
			[]string{"(null)", "(null)", "(null)"},
			[]string{"(null)", "(null)", "(null)"},
		},
		"a field that is a null struct": {
			"nothing",
			map[int]string{20: `{"a":7,"in":null}`, 21: `7`, 23: `"deep"`},
			[]string{`{"a":7,"in":null}`, `{"a":7,"in":null}`, `{"a":7,"in":null}`},
			[]string{"7", "7", "7"},
			[]string{"(null)", "(null)", "(null)"},
		},
		"a struct in a struct": {
			"a", both,
			[]string{`{"a":5,"in":{"b":"deep"}}`, "(null)", `{"a":null,"in":{"b":"deep"}}`},
			[]string{"5", "(null)", "(null)"},
			[]string{"deep", "(null)", "deep"},
		},
		"a struct in a struct that is null": {
			"a",
			map[int]string{23: `"deep"`},
			[]string{`{"a":5,"in":null}`, "(null)", `{"a":null,"in":null}`},
			[]string{"5", "(null)", "(null)"},
			[]string{"(null)", "(null)", "(null)"},
		},
		"fields beside a list": {
			"in", both,
			[]string{`{"a":7,"in":{"b":"deep"}}`, "(null)", `{"a":7,"in":null}`},
			[]string{"7", "(null)", "7"},
			[]string{"deep", "(null)", "(null)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := grown(t, []string{c.file}, c.defaults)
			for column, want := range map[string][]string{"s": c.whole, "s.a": c.a, "s.in.b": c.b} {
				for _, opts := range []scan.Options{{}, {BatchRows: 1}} {
					source := r.source()
					source.Checked = nil
					got := r.read(r.scanner(opts), source, r.columns(column, "id"))
					require.NoError(t, got.err)
					for i := range want {
						want := fmt.Sprint(want[i], " | ", i+1)
						require.Equal(t, want, got.lines[i], column)
					}
				}
			}
		})
	}
}

// TestDefaultsInLists checks the defaults of fields of structs inside lists and maps.
//
// spec: resolve-71
func TestDefaultsInLists(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	element := func(fields ...arrow.Field) arrow.DataType {
		return arrow.MapOfFields(
			arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64, Metadata: withID(21, "", nil).Metadata},
			withID(22, "value", arrow.ListOfField(withID(23, "element", arrow.StructOf(fields...)))))
	}
	old, fresh := withID(24, "old", arrow.PrimitiveTypes.Int64), withID(25, "fresh", arrow.BinaryTypes.String)
	schema := arrow.NewSchema([]arrow.Field{withID(1, "id", arrow.PrimitiveTypes.Int64), withID(20, "m", element(old))}, nil)
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"id":1,"m":[{"key":1,"value":[{"old":1},null]},{"key":2,"value":null}]},{"id":2,"m":null},{"id":3,"m":[{"key":3,"value":[{"old":3}]}]}]`))
	require.NoError(t, err)
	r.addAsIs(rows, bucket.Null)
	plain := arrow.MapOfFields(arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "value", Nullable: true, Type: arrow.ListOfField(arrow.Field{Name: "element", Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "fresh", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "old", Type: arrow.PrimitiveTypes.Int64, Nullable: true})})})
	r.table.Fields = []catalog.Field{
		{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{ID: 20, Name: "m", Type: plain, Stored: element(fresh, old)},
	}
	r.table.Defaults = map[int]arrow.Array{25: one(t, arrow.BinaryTypes.String, `"given"`)}
	source := r.source()
	source.Checked = nil
	got := r.read(r.scanner(scan.Options{}), source, r.columns("m"))
	require.NoError(t, got.err)
	require.Equal(t, []string{
		`[{"key":1,"value":[{"fresh":"given","old":1},null]},{"key":2,"value":null}]`, "(null)", `[{"key":3,"value":[{"fresh":"given","old":3}]}]`,
	}, got.lines)
}
