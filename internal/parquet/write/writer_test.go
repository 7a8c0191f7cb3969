package write_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
)

// fromJSON makes a batch from JSON rows.
func fromJSON(t testing.TB, sc *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	out, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(rows))
	require.NoError(t, err)
	return out
}

// schemaOf returns a schema of nullable columns c0, c1 … with ids from 1.
func schemaOf(types ...arrow.DataType) *arrow.Schema {
	w, fields := newWorld(0), []arrow.Field{}
	for i, t := range types {
		fields = append(fields, w.field(fmt.Sprintf("c%d", i), t, true))
	}
	return arrow.NewSchema(fields, nil)
}

// numbers returns a batch with a column of the numbers from 0 to n.
func numbers(sc *arrow.Schema, from, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(from + i))
	}
	return b.NewRecordBatch()
}

// TestRowGroups ends row groups by rows and by bytes, and declares the order of the rows.
//
// spec: file-5, file-12
func TestRowGroups(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64)
	rows := numbers(sc, 0, 1000)
	content, out := writeFile(t, write.Options{Schema: sc, Sorting: []write.SortingColumn{{FieldID: 1, Descending: true, NullsFirst: true}}}.WithRowGroupRows(300), rows.NewSlice(0, 130), rows.NewSlice(130, 380), rows.NewSlice(380, 1000))
	requireRows(t, content, sc, rows)
	require.Len(t, out.Splits, 4)
	require.Equal(t, int64(1000), out.Rows)
	rdr, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	for i, want := range []int64{300, 300, 300, 100} {
		group := rdr.MetaData().RowGroup(i)
		require.Equal(t, want, group.NumRows())
		require.Equal(t, out.Splits[i], group.FileOffset())
		require.Len(t, group.SortingColumns(), 1)
		require.Equal(t, []any{int32(0), true, true}, []any{group.SortingColumns()[0].ColumnIdx, group.SortingColumns()[0].Descending, group.SortingColumns()[0].NullsFirst})
	}
	_, out = writeFile(t, write.Options{Schema: sc, RowGroupBytes: 1}.WithPageBytes(4096), filled(sc, 20_000, func(to array.Builder, row int) { to.(*array.Int64Builder).Append(mixed(row)) }))
	require.Len(t, out.Splits, 3, "row groups end after 8192 rows at the earliest")
}

// TestPageIndex reads bounds from column indexes, which long values and NaN leave out.
//
// spec: file-6
func TestPageIndex(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)
	for name, c := range map[string]struct {
		last    string
		indexed [3]bool
	}{
		"short":   {`[{"c0": 9, "c1": "z", "c2": 2}]`, [3]bool{true, true, true}},
		"as long": {`[{"c0": 9, "c1": "` + strings.Repeat("z", 1024) + `", "c2": 2}]`, [3]bool{true, true, true}},
		"longer":  {`[{"c0": 9, "c1": "` + strings.Repeat("z", 1025) + `", "c2": 2}]`, [3]bool{true, false, true}},
		"nulls":   {`[{}]`, [3]bool{true, true, true}},
	} {
		content, _ := writeFile(t, write.Options{Schema: sc}.WithPageBytes(1), fromJSON(t, sc, `[{"c0": 5, "c1": "a", "c2": 1}]`), fromJSON(t, sc, c.last))
		f := openFile(t, content)
		for i, want := range c.indexed {
			_, has := f.HasPageStatistics(0, i+1)
			require.Equal(t, want, has, "%s, column %d", name, i)
		}
		s, err := f.PageStatistics(t.Context(), 0, 1, arrow.PrimitiveTypes.Int64, nil)
		require.NoError(t, err)
		require.Equal(t, int64(5), s.Lower, name)
	}
}

// TestLargeRows has a row group for rows of some MiB, in memory of not much more than them.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.BinaryTypes.String)
	rows := filled(sc, 24, func(to array.Builder, row int) {
		to.(*array.StringBuilder).Append(strings.Repeat(string(rune('a'+row)), 3<<20))
	})
	account := &limited{limit: 400 << 20}
	content, _ := writeFile(t, write.Options{Schema: sc, Memory: account, PageRows: 1}, rows)
	require.Zero(t, account.used)
	f := openFile(t, content)
	require.Equal(t, int64(24), f.Rows())
}

// TestWithoutRows writes a file without rows, one with an empty batch, and columns of nulls.
//
// spec: file-1
func TestWithoutRows(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
	content, out := writeFile(t, write.Options{Schema: sc})
	requireRows(t, content, sc)
	require.Equal(t, map[int]int64{1: 0, 2: 0}, out.Values)
	require.Empty(t, out.Splits)
	empty := fromJSON(t, sc, `[]`)
	content, _ = writeFile(t, write.Options{Schema: sc}, empty, empty)
	requireRows(t, content, sc)
	nulls := fromJSON(t, sc, `[{}, {}]`)
	content, out = writeFile(t, write.Options{Schema: sc}, empty, nulls, empty)
	requireRows(t, content, sc, nulls)
	require.Equal(t, map[int]int64{1: 2, 2: 2}, out.Nulls)
	require.Empty(t, out.Lower)
}

// TestHiddenValues writes arrays with values where they are null: elements of null lists, and
// fields of null structs. None of them is in the file or its statistics.
//
// spec: file-1, file-7
func TestHiddenValues(t *testing.T) {
	t.Parallel()
	w := newWorld(0)
	decimal := &arrow.Decimal128Type{Precision: 25, Scale: 2}
	sc := arrow.NewSchema([]arrow.Field{
		w.field("list", arrow.ListOfField(w.field("element", arrow.PrimitiveTypes.Int64, false)), true),
		w.field("struct", arrow.StructOf(w.field("a", arrow.PrimitiveTypes.Int64, false), w.field("b", decimal, true)), true),
	}, nil)
	items := array.NewInt64Builder(memory.DefaultAllocator)
	items.AppendValues([]int64{1, -9, -9, 2, 3, -9}, nil)
	bits := func(valid ...bool) *memory.Buffer {
		b := make([]byte, 1)
		for i, v := range valid {
			bitutil.SetBitTo(b, i, v)
		}
		return memory.NewBufferBytes(b)
	}
	of := func(v []int32) *memory.Buffer { return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v)) }
	list := array.MakeFromData(array.NewData(sc.Field(0).Type, 4, []*memory.Buffer{bits(true, false, true, false), of([]int32{0, 1, 3, 5, 6})}, []arrow.ArrayData{items.NewArray().Data()}, 2, 0))
	items.AppendValues([]int64{1, -9, 2, 3}, nil)
	numbers := array.NewDecimal128Builder(memory.DefaultAllocator, decimal)
	for _, v := range []int64{10, -90, 20, 30} {
		numbers.Append(decimal128.FromI64(v))
	}
	record := array.MakeFromData(array.NewData(sc.Field(1).Type, 4, []*memory.Buffer{bits(true, false, true, true)}, []arrow.ArrayData{items.NewArray().Data(), numbers.NewArray().Data()}, 1, 0))
	rows := array.NewRecordBatch(sc, []arrow.Array{list, record}, 4)
	for _, r := range [][2]int64{{0, 4}, {1, 4}, {2, 3}} {
		part := rows.NewSlice(r[0], r[1])
		content, out := writeFile(t, write.Options{Schema: sc}, part)
		requireRows(t, content, sc, part)
		for id, lower := range out.Lower {
			require.NotEqual(t, byte(0xff), lower[len(lower)-1], "field %d has a negative bound", id)
		}
	}
}

// TestSameBytes writes the same batches several times.
//
// spec: file-9
func TestSameBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(5)
	sc := w.flat()
	styles := w.styles(sc)
	for i := range styles {
		styles[i].values = 1 << 40
	}
	batches := []arrow.RecordBatch{w.batch(sc, 300, styles), w.batch(sc, 2500, styles)}
	opts := write.Options{Schema: sc, FormatVersion: 3, PageRows: 100, Bloom: []int{2, 12}}.WithRowGroupRows(1500)
	want, _ := writeFile(t, opts, batches...)
	for i := range 5 {
		opts.Parallel = i
		got, _ := writeFile(t, opts, batches...)
		require.True(t, bytes.Equal(want, got), "Parallel %d", i)
	}
}

// TestDictionaryIsGivenUp writes texts whose dictionary becomes too large: later pages are plain, and
// the footer lists both encodings in one order.
//
// spec: file-1, file-9
func TestDictionaryIsGivenUp(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.BinaryTypes.String)
	few := filled(sc, 2000, func(to array.Builder, row int) {
		to.(*array.StringBuilder).Append(fmt.Sprintf("a long name of country %d", mixed(row)&15))
	})
	many := filled(sc, 200, func(to array.Builder, row int) {
		to.(*array.StringBuilder).Append(fmt.Sprintf("%020d%s", mixed(row), strings.Repeat("b", 16<<10)))
	})
	want, out := writeFile(t, write.Options{Schema: sc, PageRows: 1000}, few, many, few)
	requireRows(t, want, sc, few, many, few)
	require.Equal(t, map[int]string{1: "RLE_DICTIONARY"}, out.Encodings)
	rdr, err := file.NewParquetReader(bytes.NewReader(want))
	require.NoError(t, err)
	require.Len(t, rdr.MetaData().RowGroups[0].Columns[0].MetaData.EncodingStats, 3)
	for range 16 {
		got, _ := writeFile(t, write.Options{Schema: sc, PageRows: 1000}, few, many, few)
		require.True(t, bytes.Equal(want, got))
	}
}

// TestBloomFilters looks up values in the filters of a file.
//
// spec: file-11
func TestBloomFilters(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range int64(2000) {
		b.Field(0).(*array.Int64Builder).Append(i * 3)
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("text %d", i%100))
		b.Field(2).(*array.Int64Builder).Append(i)
	}
	content, _ := writeFile(t, write.Options{Schema: sc, Bloom: []int{1, 2}}.WithRowGroupRows(1000), b.NewRecordBatch())
	f := openFile(t, content)
	hold := func(group, id int, as arrow.DataType, v any) bool {
		may, err := f.MayHold(t.Context(), group, id, as, []any{v})
		require.NoError(t, err)
		return may
	}
	wrong := 0
	for i := range int64(1000) {
		require.True(t, hold(0, 1, arrow.PrimitiveTypes.Int64, i*3))
		require.True(t, hold(1, 1, arrow.PrimitiveTypes.Int64, (i+1000)*3))
		require.True(t, hold(0, 2, arrow.BinaryTypes.String, fmt.Sprintf("text %d", i%100)))
		if hold(0, 1, arrow.PrimitiveTypes.Int64, i*3+1) {
			wrong++
		}
		if hold(1, 2, arrow.BinaryTypes.String, fmt.Sprintf("text %d", i+100)) {
			wrong++
		}
	}
	require.Less(t, wrong, 200)
	require.True(t, hold(0, 3, arrow.PrimitiveTypes.Int64, int64(-1)), "field 3 has no filter")
}

// TestRefusals writes what a file cannot have.
//
// spec: file-10
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(0)
	required := arrow.NewSchema([]arrow.Field{w.field("n", arrow.PrimitiveTypes.Int64, false)}, nil)
	nested := arrow.NewSchema([]arrow.Field{w.field("l", arrow.ListOfField(w.field("element", arrow.PrimitiveTypes.Int64, false)), true)}, nil)
	optional := func(sc *arrow.Schema) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{{Name: sc.Field(0).Name, Type: sc.Field(0).Type, Nullable: true}}, nil)
	}
	texts, digits := schemaOf(arrow.BinaryTypes.String), schemaOf(&arrow.Decimal128Type{Precision: 20, Scale: 0})
	long := array.NewStringBuilder(memory.DefaultAllocator)
	long.Append(strings.Repeat("a", 64<<20))
	bad := array.NewStringBuilder(memory.DefaultAllocator)
	bad.AppendValues([]string{"a", "\xff"}, nil)
	decimal := array.NewDecimal128Builder(memory.DefaultAllocator, digits.Field(0).Type.(*arrow.Decimal128Type))
	decimal.Append(decimal128.New(math.MinInt64, 0))
	of := func(sc *arrow.Schema, a arrow.Array) arrow.RecordBatch {
		return array.NewRecordBatch(sc, []arrow.Array{a}, int64(a.Len()))
	}
	inner := func() arrow.RecordBatch {
		b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
		b.Append(true)
		b.ValueBuilder().AppendNull()
		list := b.NewArray()
		return of(arrow.NewSchema([]arrow.Field{{Name: "l", Type: list.DataType()}}, nil), list)
	}
	nanos := schemaOf(&arrow.TimestampType{Unit: arrow.Nanosecond})
	same := arrow.NewSchema([]arrow.Field{newWorld(0).field("a", arrow.PrimitiveTypes.Int64, true), newWorld(0).field("b", arrow.PrimitiveTypes.Int64, true)}, nil)
	for name, c := range map[string]struct {
		opts  write.Options
		batch arrow.RecordBatch
		says  string
	}{
		"nulls in a required column":  {write.Options{Schema: required}, fromJSON(t, optional(required), `[{"n": 1}, {}]`), "column n is required"},
		"nulls in a required element": {write.Options{Schema: nested}, inner(), "column l.element is required"},
		"texts that are not UTF-8":    {write.Options{Schema: texts}, of(texts, bad.NewArray()), "write column c0: a text is not valid UTF-8"},
		"too many digits":             {write.Options{Schema: digits}, of(digits, decimal.NewArray()), "more than 20 digits"},
		"a row that is too long":      {write.Options{Schema: texts}, of(texts, long.NewArray()), "column c0 has 67108868 bytes in one row"},
		"another type":                {write.Options{Schema: texts}, numbers(schemaOf(arrow.PrimitiveTypes.Int64), 0, 1), "column c0 of a batch has the type int64, the file utf8"},
		"another number of columns":   {write.Options{Schema: schemaOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64)}, numbers(schemaOf(arrow.PrimitiveTypes.Int64), 0, 1), "1 columns, the file 2"},
		"nanoseconds before 3":        {write.Options{Schema: nanos}, nil, "which tables of format version 2 lack"},
		"equal ids":                   {write.Options{Schema: same}, nil, "columns a and b have the same field id 1"},
		"no id":                       {write.Options{Schema: optional(required)}, nil, "column n has no field id"},
		"no columns":                  {write.Options{}, nil, "needs columns"},
		"a type that tables lack":     {write.Options{Schema: schemaOf(arrow.PrimitiveTypes.Uint8)}, nil, "which Iceberg tables lack"},
		"seconds":                     {write.Options{Schema: schemaOf(&arrow.TimestampType{Unit: arrow.Second})}, nil, "which Iceberg tables lack"},
		"an empty struct":             {write.Options{Schema: schemaOf(arrow.StructOf())}, nil, "a struct without fields"},
		"a uuid of another type":      {write.Options{Schema: texts, UUIDs: []int{1}}, nil, "cannot be a uuid"},
		"an unknown uuid":             {write.Options{Schema: texts, UUIDs: []int{7}}, nil, "no field with id 7"},
		"an unknown filter":           {write.Options{Schema: texts, Bloom: []int{7}}, nil, "no field with id 7"},
		"a filter of booleans":        {write.Options{Schema: schemaOf(arrow.FixedWidthTypes.Boolean), Bloom: []int{1}}, nil, "cannot have a bloom filter"},
		"an unknown order":            {write.Options{Schema: nested, Sorting: []write.SortingColumn{{FieldID: 3}}}, nil, "no primitive column with field id 3"},
		"an order by elements":        {write.Options{Schema: nested, Sorting: []write.SortingColumn{{FieldID: 2}}}, nil, "no primitive column with field id 2"},
		"a negative size":             {write.Options{Schema: texts, PageRows: -1}, nil, "cannot be negative"},
	} {
		var batches []arrow.RecordBatch
		if c.batch != nil {
			batches = append(batches, c.batch)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := refused(t, c.opts, batches...)
			require.Equal(t, fault.Invalid, err.Kind)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestBrokenDestination fails at every write to the destination, and never completes a file.
//
// spec: file-15
func TestBrokenDestination(t *testing.T) {
	t.Parallel()
	sc := schemaOf(arrow.PrimitiveTypes.Int64)
	rows := numbers(sc, 0, 3000)
	content, _ := writeFile(t, write.Options{Schema: sc, Bloom: []int{1}}.WithRowGroupRows(1000), rows)
	for left := 0; left < len(content); left += 1 + len(content)/50 {
		to := &broken{left: left}
		w, err := write.New(t.Context(), to, write.Options{Schema: sc, Bloom: []int{1}}.WithRowGroupRows(1000))
		if err == nil {
			if err = w.Write(t.Context(), rows); err == nil {
				_, err = w.Close(t.Context())
			} else {
				_, again := w.Close(t.Context())
				require.ErrorIs(t, again, errBroken, "a file that failed does not close")
			}
			w.Release()
		}
		require.ErrorIs(t, err, errBroken, "after %d bytes", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := write.New(ctx, &memoryFile{}, write.Options{Schema: sc})
	require.NoError(t, err)
	defer w.Release()
	require.NoError(t, w.Write(ctx, rows))
	cancel()
	_, err = w.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.Close(t.Context())
	require.Error(t, err)
}

// TestMemory writes with an account that has a limit.
//
// spec: file-13
func TestMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	sc := w.flat()
	styles := w.styles(sc)
	for i := range styles {
		styles[i].long = false
	}
	rows := w.batch(sc, 5000, styles)
	write1 := func(limit int64) (*limited, error) {
		account := &limited{limit: limit}
		out, err := write.New(t.Context(), &memoryFile{}, write.Options{Schema: sc, FormatVersion: 3, RowGroupBytes: 1 << 20, Memory: account, Bloom: []int{2}}.WithRowGroupRows(10_000))
		require.NoError(t, err)
		for range 6 {
			if err = out.Write(t.Context(), rows); err != nil {
				break
			}
		}
		if err == nil {
			_, err = out.Close(t.Context())
		}
		out.Release()
		require.Zero(t, account.used)
		return account, err
	}
	whole, err := write1(math.MaxInt64)
	require.NoError(t, err)
	require.Less(t, whole.peak, int64(128<<20), "row groups are 1 MiB")
	_, err = write1(whole.peak)
	require.NoError(t, err)
	for _, limit := range []int64{0, whole.peak / 10, whole.peak / 2, whole.peak - 1} {
		_, err = write1(limit)
		require.Equal(t, fault.Exhausted, fault.KindOf(err), "limit %d", limit)
	}
}

// TestReleasesBatches holds no batch after Release.
func TestReleasesBatches(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	w := newWorld(9)
	sc := arrow.NewSchema([]arrow.Field{
		w.field("list", arrow.ListOfField(w.field("element", arrow.StructOf(w.field("a", arrow.PrimitiveTypes.Int64, true)), true)), true),
		w.field("map", arrow.MapOfFields(w.field("key", arrow.BinaryTypes.String, false), w.field("value", arrow.PrimitiveTypes.Int64, true)), true),
		w.field("n", arrow.PrimitiveTypes.Int64, true),
	}, nil)
	rows, _, err := array.RecordFromJSON(mem, sc, strings.NewReader(`[{"list": [{"a": 1}, null], "map": [{"key": "k", "value": 1}], "n": 1}, {}]`))
	require.NoError(t, err)
	for _, end := range []func(*write.DataWriter){
		func(*write.DataWriter) {},
		func(w *write.DataWriter) {
			_, err := w.Close(t.Context())
			require.NoError(t, err)
		},
	} {
		w, err := write.New(t.Context(), &memoryFile{}, write.Options{Schema: sc})
		require.NoError(t, err)
		require.NoError(t, w.Write(t.Context(), rows))
		require.NoError(t, w.Write(t.Context(), rows))
		end(w)
		w.Release()
	}
	rows.Release()
}
