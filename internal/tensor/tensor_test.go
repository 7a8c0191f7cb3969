package tensor_test

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/tensor"
)

// column is a column of a test: its name, type, values as JSON, and plan without the name.
type column struct {
	name   string
	kind   arrow.DataType
	values string
	plan   string
}

// batchOf returns a batch of columns, and the JSON of their plan.
func batchOf(t *testing.T, mem memory.Allocator, columns ...column) (arrow.RecordBatch, string) {
	t.Helper()
	fields, arrays, plans := []arrow.Field(nil), []arrow.Array(nil), []string(nil)
	for _, c := range columns {
		a, _, err := array.FromJSON(mem, c.kind, strings.NewReader(c.values))
		require.NoError(t, err)
		defer a.Release()
		fields = append(fields, arrow.Field{Name: c.name, Type: c.kind, Nullable: true})
		arrays = append(arrays, a)
		plans = append(plans, `{"name":"`+c.name+`",`+c.plan+`}`)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(arrays[0].Len())),
		`{"columns":[` + strings.Join(plans, ",") + `]}`
}

func compiled(t *testing.T, schema *arrow.Schema, text string, vocabularies ...*tensor.Vocabulary) *tensor.Layout {
	t.Helper()
	plan, err := tensor.ReadPlan([]byte(text), vocabularies)
	require.NoError(t, err)
	layout, err := tensor.Compile(schema, plan)
	require.NoError(t, err)
	return layout
}

// filled returns the block of a batch, in memory that contained other bytes.
func filled(t *testing.T, layout *tensor.Layout, rows arrow.RecordBatch) []byte {
	t.Helper()
	sizes, err := layout.Size(rows)
	require.NoError(t, err)
	block := slices.Repeat([]byte{0xa5}, int(sizes.Bytes))
	require.NoError(t, layout.Fill(rows, sizes, block, nil))
	return block
}

func fill[T any](value T) string {
	b, _ := binary.Append(nil, binary.LittleEndian, value)
	return `"` + base64.StdEncoding.EncodeToString(b) + `"`
}

const (
	plain = `"form":"values","source":"int64","conversion":"same","dtype":"int64","nulls":"corrupt"`
	lists = `"form":"lists","source":"int32","conversion":"same","dtype":"int32","nulls":"empty","element_nulls":"error"`
)

// spec: blocks-2, blocks-3, blocks-4, blocks-5
func TestBlock(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	rows, text := batchOf(t, mem,
		column{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,2],null,[3]]`, lists},
		column{
			"a", arrow.PrimitiveTypes.Int64, `[7,null,9]`,
			`"form":"values","source":"int64","conversion":"same","dtype":"int64","nulls":"fill","mask":true,"fill":` + fill(int64(-1)),
		},
		column{
			"f", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1,2],[3,null],null]`,
			`"form":"fixed_lists","width":2,"source":"float32","conversion":"same","dtype":"float32","nulls":"fill","fill":` + fill(float32(5)) +
				`,"element_nulls":"fill","element_fill":` + fill(float32(6)),
		},
	)
	defer rows.Release()
	var want []byte
	put := func(values ...any) {
		for _, v := range values {
			want, _ = binary.Append(want, binary.LittleEndian, v)
		}
		want = append(want, make([]byte, (256-len(want)%256)%256)...)
	}
	put([]byte("PTB1"), uint32(1), uint64(3), uint64(1536), uint64(1280), uint64(3)) // the header: one tensor of varying size
	put([]int32{0, 2, 2, 3})
	put([]int64{7, -1, 9})
	put([]byte{1, 0, 1})
	put([]float32{1, 2, 3, 6, 5, 5})
	put([]int32{1, 2, 3})
	layout := compiled(t, rows.Schema(), text)
	require.Equal(t, want, filled(t, layout, rows))

	part := rows.NewSlice(2, 3)
	defer part.Release()
	want = nil
	put([]byte("PTB1"), uint32(1), uint64(1), uint64(1536), uint64(1280), uint64(1))
	put([]int32{0, 1})
	put(int64(9))
	put(byte(1))
	put([]float32{5, 5})
	put(int32(3))
	require.Equal(t, want, filled(t, layout, part))
}

// spec: blocks-1
func TestPacksOfListsWithTheWidthOfAnElement(t *testing.T) {
	single := `"form":"values","source":"float32","conversion":"same","nulls":"corrupt","dtype":"float32"`
	pair := `"form":"fixed_lists","width":2,"source":"float32","conversion":"same","nulls":"corrupt","element_nulls":"corrupt","dtype":"float32"`
	rows, text := batchOf(t, batch.Default(),
		column{"a", arrow.PrimitiveTypes.Float32, `[1,2]`, single},
		column{"f", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[3,4],[5,6]]`, pair})
	text = strings.TrimSuffix(text, "}") + `,"packs":[{"name":"x","columns":["a","f"]}]}`
	want, _ := binary.Append(nil, binary.LittleEndian, []float32{1, 3, 4, 2, 5, 6})
	require.Equal(t, want, filled(t, compiled(t, rows.Schema(), text), rows)[256:][:len(want)])
}

// spec: blocks-6
func TestRefusedNullsAreFoundBeforeABlockIsWritten(t *testing.T) {
	cases := map[string]struct {
		column column
		kind   fault.Kind
		want   string
	}{
		"a schema without nulls": {
			column{"a", arrow.PrimitiveTypes.Int64, `[1,null]`, plain}, fault.Corrupt, "column 'a' contains a null, which its schema excludes",
		},
		"the rule error": {
			column{"a", arrow.PrimitiveTypes.Int64, `[1,null]`, strings.Replace(plain, "corrupt", "error", 1)}, fault.Invalid, "column 'a' contains a null",
		},
		"elements": {
			column{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,null]]`, lists}, fault.Invalid, "column 'l[]' contains a null",
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rows, text := batchOf(t, batch.Default(), test.column)
			_, err := compiled(t, rows.Schema(), text).Size(rows)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.kind, fault.KindOf(err))
		})
	}
}

// spec: blocks-6
func TestListsOutsideOfTheirElementsAreCorrupt(t *testing.T) {
	for name, offsets := range map[string][]int32{"before": {-1, 0, 1}, "after": {0, 1, 9}, "falling": {0, 2, 1}} {
		t.Run(name, func(t *testing.T) {
			elements := array.NewInt32Builder(batch.Default())
			elements.AppendValues([]int32{1, 2, 3}, nil)
			bytes, _ := binary.Append(nil, binary.LittleEndian, offsets)
			kind := arrow.ListOf(arrow.PrimitiveTypes.Int32)
			data := array.NewData(kind, 2, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, []arrow.ArrayData{elements.NewArray().Data()}, 0, 0)
			schema := arrow.NewSchema([]arrow.Field{{Name: "l", Type: kind, Nullable: true}}, nil)
			rows := array.NewRecordBatch(schema, []arrow.Array{array.NewListData(data)}, 2)
			_, err := compiled(t, schema, `{"columns":[{"name":"l",`+lists+`}]}`).Size(rows)
			require.EqualError(t, err, "column 'l' contains lists outside of their elements")
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
		})
	}
}

// spec: blocks-7
func TestPlansThatDoNotFitAreInvalid(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
	}, nil)
	a, l := `{"name":"a",`+plain+`}`, `{"name":"l",`+lists+`}`
	edit := func(old, new string) string { return `{"columns":[` + strings.Replace(a, old, new, 1) + `,` + l + `]}` }
	compiled(t, schema, edit("", ""))
	cases := map[string]string{
		"no JSON":                "{",
		"text after the plan":    edit("", "") + "1",
		"an unknown field":       edit(`"form"`, `"shape":1,"form"`),
		"an unknown form":        edit(`"values"`, `"scalars"`),
		"an unknown source":      edit(`"source":"int64"`, `"source":"int65"`),
		"an unknown conversion":  edit(`"same"`, `"other"`),
		"an unknown dtype":       edit(`"dtype":"int64"`, `"dtype":"complex64"`),
		"an unknown null rule":   edit(`"corrupt"`, `"drop"`),
		"no dtype":               edit(`"dtype":"int64",`, ""),
		"no conversion":          edit(`"conversion":"same",`, ""),
		"no rule for nulls":      edit(`,"nulls":"corrupt"`, ""),
		"an empty value":         edit(`"corrupt"`, `"empty"`),
		"a fill without bytes":   edit(`"corrupt"`, `"fill"`),
		"a fill of two bytes":    edit(`"corrupt"`, `"fill","fill":"AAA="`),
		"another source":         edit(`"source":"int64"`, `"source":"int32"`),
		"a dictionary":           edit(`"source"`, `"dictionary":true,"source"`),
		"another form":           edit(`"values"`, `"lists"`),
		"a width":                edit(`"source"`, `"width":3,"source"`),
		"ticks of an integer":    edit(`"same"`, `"ticks"`),
		"a cast to float64":      edit(`"dtype":"int64"`, `"dtype":"float64"`),
		"no buckets":             edit(`"same"`, `"hash"`),
		"buckets without hash":   edit(`"same"`, `"same","buckets":3`),
		"no vocabulary":          edit(`"same"`, `"lookup"`),
		"another name":           edit(`"name":"a"`, `"name":"b"`),
		"an entry":               edit(`"name":"a"`, `"entry":"e","name":"a"`),
		"a column too few":       `{"columns":[` + a + `]}`,
		"a column too many":      `{"columns":[` + a + `,` + l + `,` + a + `]}`,
		"a pack of nothing":      `{"columns":[` + a + `,` + l + `],"packs":[{"columns":[]}]}`,
		"a pack of lists":        `{"columns":[` + a + `,` + l + `],"packs":[{"columns":["l"]}]}`,
		"a pack of others":       `{"columns":[` + a + `,` + l + `],"packs":[{"columns":["x"]}]}`,
		"a column in two packs":  `{"columns":[` + a + `,` + l + `],"packs":[{"columns":["a"]},{"columns":["a"]}]}`,
		"elements without rules": strings.Replace(edit("", ""), `,"element_nulls":"error"`, "", 1),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			plan, err := tensor.ReadPlan([]byte(text), nil)
			if err == nil {
				_, err = tensor.Compile(schema, plan)
			}
			require.Error(t, err)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

func TestFillRefusesSizesOfOtherBatches(t *testing.T) {
	rows, text := batchOf(t, batch.Default(), column{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,2],[3]]`, lists})
	other, _ := batchOf(t, batch.Default(), column{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,2],[3,4]]`, lists})
	layout := compiled(t, rows.Schema(), text)
	sizes, err := layout.Size(rows)
	require.NoError(t, err)
	block := make([]byte, sizes.Bytes)
	require.NoError(t, layout.Fill(rows, sizes, block, nil))
	require.ErrorContains(t, layout.Fill(other, sizes, block, nil), "has 4 rows, and its sizes say 3")
	require.ErrorContains(t, layout.Fill(rows, sizes, block[:256], nil), "sizes are not its own")
	require.ErrorContains(t, layout.Fill(rows.NewSlice(0, 1), sizes, block, nil), "sizes are not its own")
	aligned := make([]byte, sizes.Bytes+1)
	require.ErrorContains(t, layout.Fill(rows, sizes, aligned[1:], nil), "odd address")
	_, err = layout.Size(array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 2))
	require.ErrorContains(t, err, "not of the schema")
}

func TestDecimalsOfMoreDigitsThanTheirTypeAreCorrupt(t *testing.T) {
	kind := &arrow.Decimal128Type{Precision: 18, Scale: 2}
	bytes, _ := binary.Append(nil, binary.LittleEndian, []uint64{1, 0, 5, 1})
	data := array.NewData(kind, 2, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: kind}}, nil)
	layout := compiled(t, schema, `{"columns":[{"name":"d","form":"values","source":"decimal128","conversion":"unscaled","dtype":"int64","nulls":"corrupt"}]}`)
	rows := array.NewRecordBatch(schema, []arrow.Array{array.NewDecimal128Data(data)}, 2)
	sizes, err := layout.Size(rows)
	require.NoError(t, err)
	err = layout.Fill(rows, sizes, make([]byte, sizes.Bytes), nil)
	require.EqualError(t, err, "column 'd' contains a decimal with more digits than its type")
	require.NoError(t, layout.Fill(rows.NewSlice(0, 1), mustSize(t, layout, rows.NewSlice(0, 1)), make([]byte, 512), nil))
}

func mustSize(t *testing.T, layout *tensor.Layout, rows arrow.RecordBatch) tensor.Sizes {
	t.Helper()
	sizes, err := layout.Size(rows)
	require.NoError(t, err)
	return sizes
}

// TestIndicesOutsideOfADictionaryAreCorrupt: Go's readers do not check them.
func TestIndicesOutsideOfADictionaryAreCorrupt(t *testing.T) {
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int64}
	values, _, err := array.FromJSON(batch.Default(), arrow.PrimitiveTypes.Int64, strings.NewReader("[4,5]"))
	require.NoError(t, err)
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: kind}}, nil)
	layout := compiled(t, schema, `{"columns":[{"name":"d","dictionary":true,`+plain+`}]}`)
	for name, index := range map[string]int8{"after": 2, "negative": -1} {
		t.Run(name, func(t *testing.T) {
			data := array.NewDataWithDictionary(kind, 3, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{0, 1, byte(index)})}, 0, 0, values.Data().(*array.Data))
			rows := array.NewRecordBatch(schema, []arrow.Array{array.NewDictionaryData(data)}, 3)
			sizes := mustSize(t, layout, rows)
			err := layout.Fill(rows, sizes, make([]byte, sizes.Bytes), nil)
			require.EqualError(t, err, "column 'd' refers to values that are not in its dictionary")
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
		})
	}
}

func TestVocabularies(t *testing.T) {
	codes := array.NewInt64Builder(batch.Default())
	codes.AppendValues([]int64{7, 8, 9}, nil)
	values, _, err := array.FromJSON(batch.Default(), arrow.BinaryTypes.String, strings.NewReader(`["a",null,"a"]`))
	require.NoError(t, err)
	v, err := tensor.NewVocabulary(values, codes.NewInt64Array())
	require.NoError(t, err)
	lookup := `"form":"values","source":"string","conversion":"lookup","vocabulary":0,"dtype":"int64","nulls":"corrupt"`
	rows, text := batchOf(t, batch.Default(), column{"s", arrow.BinaryTypes.String, `["a"]`, lookup})
	block := filled(t, compiled(t, rows.Schema(), text, v), rows)
	require.Equal(t, uint64(7), binary.LittleEndian.Uint64(block[256:]))

	for _, values := range []string{`[1.5]`, `[1.5, 2, 3]`} {
		floats, _, err := array.FromJSON(batch.Default(), arrow.PrimitiveTypes.Float64, strings.NewReader(values))
		require.NoError(t, err)
		codes.AppendValues([]int64{1, 2, 3}, nil)
		_, err = tensor.NewVocabulary(floats, codes.NewInt64Array())
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	plan, err := tensor.ReadPlan([]byte(strings.Replace(text, `"source":"string"`, `"source":"int64"`, 1)), []*tensor.Vocabulary{v})
	require.NoError(t, err)
	_, err = tensor.Compile(arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.PrimitiveTypes.Int64}}, nil), plan)
	require.ErrorContains(t, err, "values of another type")
}

// The four types that plans can cast to.
func TestCasts(t *testing.T) {
	cases := map[string]struct {
		kind   arrow.DataType
		source string
		values string
		dtype  string
		want   any // nil: a value does not fit
	}{
		"integers that fit":         {arrow.PrimitiveTypes.Int64, "int64", `[1,-2147483648,2147483647]`, "int32", []int32{1, math.MinInt32, math.MaxInt32}},
		"a large integer":           {arrow.PrimitiveTypes.Int64, "int64", `[2147483648]`, "int32", nil},
		"a small integer":           {arrow.PrimitiveTypes.Int64, "int64", `[-2147483649]`, "int32", nil},
		"an unsigned integer":       {arrow.PrimitiveTypes.Uint32, "uint32", `[4294967295]`, "int32", nil},
		"halves, ties to even":      {arrow.PrimitiveTypes.Int64, "int64", `[2049,2051,65504,-65519]`, "float16", []uint16{0x6800, 0x6802, 0x7bff, 0xfbff}},
		"an infinite half":          {arrow.PrimitiveTypes.Int64, "int64", `[65520]`, "float16", nil},
		"an infinite half, float64": {arrow.PrimitiveTypes.Float64, "float64", `[1e300]`, "float16", nil},
		"infinity":                  {arrow.PrimitiveTypes.Float64, "float64", `["+Inf"]`, "float16", []uint16{0x7c00}},
		"subnormal halves":          {arrow.PrimitiveTypes.Float32, "float32", `[5.9604645e-08,2.9802322e-08,8.940697e-08,-0.0]`, "float16", []uint16{1, 0, 2, 0x8000}},
		"brain floats":              {arrow.PrimitiveTypes.Float32, "float32", `[1,1.00390625,1.01171875,-3e38]`, "bfloat16", []uint16{0x3f80, 0x3f80, 0x3f82, 0xff62}},
		"an infinite brain float":   {arrow.PrimitiveTypes.Float32, "float32", `[3.4028235e38]`, "bfloat16", nil},
		"singles":                   {arrow.PrimitiveTypes.Float64, "float64", `[0.1,16777217]`, "float32", []float32{0.1, 16777216}},
		"an infinite single":        {arrow.PrimitiveTypes.Float64, "float64", `[3.5e38]`, "float32", nil},
		"booleans":                  {arrow.FixedWidthTypes.Boolean, "bool", `[true,false]`, "bfloat16", []uint16{0x3f80, 0}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rows, text := batchOf(t, batch.Default(), column{
				"a", test.kind, test.values,
				`"form":"values","source":"` + test.source + `","conversion":"same","nulls":"corrupt","dtype":"` + test.dtype + `"`,
			})
			layout := compiled(t, rows.Schema(), text)
			if test.want == nil {
				sizes := mustSize(t, layout, rows)
				err := layout.Fill(rows, sizes, make([]byte, sizes.Bytes), nil)
				require.ErrorContains(t, err, "column 'a' contains a number that "+test.dtype+" cannot hold")
				require.Equal(t, fault.Invalid, fault.KindOf(err))
				return
			}
			want, err := binary.Append(nil, binary.LittleEndian, test.want)
			require.NoError(t, err)
			require.Equal(t, want, filled(t, layout, rows)[256:][:len(want)])
		})
	}
}

// TestScratchIsCharged: what Size and Fill allocate is within Scratch, even for long dictionaries with nulls.
func TestScratchIsCharged(t *testing.T) {
	const count = 100_000
	values, indices := array.NewFloat64Builder(batch.Default()), array.NewInt32Builder(batch.Default())
	for i := range int32(count) {
		indices.Append(i)
		if i%3 == 0 {
			values.AppendNull()
		} else {
			values.Append(float64(i))
		}
	}
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.PrimitiveTypes.Float64}
	column := array.NewDictionaryArray(kind, indices.NewArray(), values.NewArray())
	schema := arrow.NewSchema([]arrow.Field{{Name: "d", Type: kind, Nullable: true}}, nil)
	rows := array.NewRecordBatch(schema, []arrow.Array{column}, count)
	layout := compiled(t, schema, `{"columns":[{"name":"d","form":"values","dictionary":true,"source":"float64","conversion":"same","dtype":"float32","nulls":"fill","fill":"AAAAAA=="}]}`)
	sizes := mustSize(t, layout, rows)
	block := make([]byte, sizes.Bytes)
	require.Less(t, sizes.Scratch, int64(10*count))
	rounded := sizes.Scratch + sizes.Scratch/50 // as Go rounds the sizes of allocations
	require.LessOrEqual(t, allocated(func() { mustSize(t, layout, rows) }), rounded)
	require.LessOrEqual(t, allocated(func() { require.NoError(t, layout.Fill(rows, sizes, block, nil)) }), rounded)
}

// TestScratchOfExpandedColumnsIsCharged: each distinct row, and each element of a list, is converted once.
func TestScratchOfExpandedColumnsIsCharged(t *testing.T) {
	const distinct = 20_000
	values, elements := array.NewFloat64Builder(batch.Default()), array.NewListBuilder(batch.Default(), arrow.PrimitiveTypes.Int64)
	for i := range int64(distinct) {
		values.Append(float64(i))
		elements.Append(true)
		elements.ValueBuilder().(*array.Int64Builder).AppendValues([]int64{i, 2, 3}, nil)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Float64}, {Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true}}, nil)
	indexed := indexedBatch(array.NewRecordBatch(schema, []arrow.Array{values.NewArray(), elements.NewArray()}, distinct), slices.Repeat([]byte{0, 1, 2, 3, 3}, distinct))
	layout := compiled(t, indexed.Schema(), `{"columns":[{"name":"v","form":"values","source":"float64","conversion":"same","dtype":"float32","nulls":"corrupt"},`+
		`{"name":"l","form":"lists","source":"int64","conversion":"hash","buckets":7,"dtype":"int64","nulls":"empty","element_nulls":"corrupt"}]}`)
	sizes := mustSize(t, layout, indexed)
	block := make([]byte, sizes.Bytes)
	require.Less(t, sizes.Scratch, int64(30*distinct))
	require.LessOrEqual(t, allocated(func() { require.NoError(t, layout.Fill(indexed, sizes, block, nil)) }), sizes.Scratch+sizes.Scratch/50)
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
