package tensor_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/tensor"
)

// indexedBatch returns a batch with one indexed column, "e", whose distinct rows are those of a batch.
func indexedBatch(distinct arrow.RecordBatch, references []byte) arrow.RecordBatch {
	indices := array.NewInt32Builder(batch.Default())
	for _, r := range references {
		indices.Append(int32(int64(r) % distinct.NumRows()))
	}
	return indexedBy(distinct, indices.NewInt32Array())
}

// indexedBy is like indexedBatch for given indices.
func indexedBy(distinct arrow.RecordBatch, indices *array.Int32) arrow.RecordBatch {
	rows, _ := array.NewStructArrayWithFields(distinct.Columns(), distinct.Schema().Fields())
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: rows.DataType()}
	column := array.NewDictionaryArray(kind, indices, rows)
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "e", Type: kind}}, nil), []arrow.Array{column}, int64(indices.Len()))
}

// expandedByArrow returns the plain batch of a batch of indexed columns.
func expandedByArrow(t testing.TB, indexed arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	var columns []arrow.Array
	for _, c := range indexed.Columns() {
		d := c.(*array.Dictionary)
		for i, f := range d.Dictionary().DataType().(*arrow.StructType).Fields() {
			values := d.Dictionary().(*array.Struct).Field(i)
			parts := []arrow.Array{array.NewSlice(values, 0, 0)}
			for row := range d.Len() {
				at := int64(d.GetValueIndex(row))
				parts = append(parts, array.NewSlice(values, at, at+1))
			}
			column, err := array.Concatenate(parts, batch.Default())
			require.NoError(t, err)
			fields, columns = append(fields, f), append(columns, column)
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, indexed.NumRows())
}

// requireSameBlocks checks that two layouts make the same block, or the same error, of two batches.
func requireSameBlocks(t *testing.T, want *tensor.Layout, plain arrow.RecordBatch, got *tensor.Layout, indexed arrow.RecordBatch) {
	t.Helper()
	block := func(layout *tensor.Layout, rows arrow.RecordBatch, before byte, on *cores.Cores) ([]byte, error) {
		sizes, err := layout.Size(rows)
		if err != nil {
			return nil, err
		}
		block := make([]byte, sizes.Bytes)
		for i := range block {
			block[i] = before
		}
		return block, layout.Fill(rows, sizes, block, on)
	}
	expected, wanted := block(want, plain, 0, nil)
	found, err := block(got, indexed, 0xff, cores.New(3))
	if wanted != nil {
		require.EqualError(t, err, wanted.Error())
		return
	}
	require.NoError(t, err)
	require.Equal(t, expected, found)
}

// spec: blocks-8
func TestExpandedBlocksAreThoseOfPlainBatches(t *testing.T) {
	integers, texts := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	filled := `"nulls":"fill","fill":` + fill(int64(-7))
	lookup := `"form":"values","source":"string","conversion":"lookup","vocabulary":0,"dtype":"int64",`
	fixed := `"form":"fixed_lists","width":2,"source":"float32","conversion":"same","nulls":"corrupt","element_nulls":"corrupt","dtype":"float32"`
	codes := array.NewInt64Builder(batch.Default())
	codes.AppendValues([]int64{5, 6}, nil)
	known, _, err := array.FromJSON(batch.Default(), texts, strings.NewReader(`["a","b"]`))
	require.NoError(t, err)
	vocabulary, err := tensor.NewVocabulary(known, codes.NewInt64Array())
	require.NoError(t, err)
	for name, test := range map[string]struct {
		columns    []column
		references []byte
		packs      string
		want       string // the error; "": none
	}{
		"values": {columns: []column{{"a", integers, `[1,2,3]`, plain}}, references: []byte{2, 2, 0, 1, 1}},
		"fewer rows than distinct rows": {
			columns:    []column{{"a", integers, `[1,null,3]`, `"form":"values","source":"int64","conversion":"same","dtype":"int64","mask":true,` + filled}},
			references: []byte{1, 2},
		},
		"nulls, masks and casts": {
			columns: []column{{
				"a", integers, `[1,null,3]`,
				`"form":"values","source":"int64","conversion":"same","dtype":"float16","mask":true,"nulls":"fill","fill":` + fill(uint16(9)),
			}},
			references: []byte{1, 2, 1, 0},
		},
		"codes of each distinct row": {
			columns:    []column{{"s", texts, `["a",null,"b"]`, lookup + filled}},
			references: []byte{0, 1, 2, 2, 0},
		},
		"a code that no row has":     {columns: []column{{"s", texts, `["a","x"]`, lookup + `"nulls":"corrupt"`}}, references: []byte{0, 0, 0}},
		"a null that no row has":     {columns: []column{{"a", integers, `[1,null]`, plain}}, references: []byte{0, 0, 0}},
		"a null in a list, unused":   {columns: []column{{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1],[null]]`, lists}}, references: []byte{0, 0, 0}},
		"lists":                      {columns: []column{{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,2],null,[],[3]]`, lists}}, references: []byte{0, 0, 3, 1, 2, 3, 0}},
		"lists, most of them unused": {columns: []column{{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1,2],null,[],[3]]`, strings.Replace(lists, `"dtype":"int32"`, `"dtype":"float32"`, 1)}}, references: []byte{3}},
		"lists of codes": {
			columns: []column{{
				"l", arrow.ListOf(texts), `[["a","b"],null,["b"]]`,
				`"form":"lists","source":"string","conversion":"lookup","vocabulary":0,"dtype":"int64","nulls":"empty","element_nulls":"corrupt"`,
			}},
			references: []byte{0, 0, 1, 2, 2},
		},
		"a pack of several widths": {
			columns: []column{
				{"a", arrow.PrimitiveTypes.Float32, `[1,2]`, `"form":"values","source":"float32","conversion":"same","nulls":"corrupt","dtype":"float32"`},
				{"f", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[3,4],[5,6]]`, fixed},
			},
			references: []byte{1, 1, 0},
			packs:      `{"name":"x","columns":["f","a"]}`,
		},
		"no rows": {columns: []column{{"a", integers, `[1,2]`, plain}, {"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1],[]]`, lists}}},
		"a null that a row has": {
			columns: []column{{"a", integers, `[1,null]`, plain}}, references: []byte{0, 1}, want: "column 'a' contains a null, which its schema excludes",
		},
		"a code that a row has": {
			columns: []column{{"s", texts, `["a","x","y"]`, lookup + `"nulls":"corrupt"`}}, references: []byte{0, 2, 2, 1},
			want: "column 's' contains values that are not in its vocabulary: 'y', 'x'",
		},
		"a null in a list": {
			columns: []column{{"l", arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1],[null]]`, lists}}, references: []byte{0, 1}, want: "column 'l[]' contains a null",
		},
	} {
		t.Run(name, func(t *testing.T) {
			distinct, text := batchOf(t, batch.Default(), test.columns...)
			if test.packs != "" {
				text = strings.TrimSuffix(text, "}") + `,"packs":[` + test.packs + `]}`
			}
			indexed := indexedBatch(distinct, test.references)
			want, got := compiled(t, distinct.Schema(), text, vocabulary), compiled(t, indexed.Schema(), text, vocabulary)
			requireSameBlocks(t, want, expandedByArrow(t, indexed), got, indexed)
			if sizes, err := got.Size(indexed); test.want != "" {
				if err == nil {
					err = got.Fill(indexed, sizes, make([]byte, sizes.Bytes), nil)
				}
				require.ErrorContains(t, err, test.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// spec: blocks-7, blocks-8
func TestExpandedColumnsHaveTheOrderOfThePlan(t *testing.T) {
	distinct, _ := batchOf(t, batch.Default(), column{"a", arrow.PrimitiveTypes.Int64, `[1,2]`, plain}, column{"b", arrow.PrimitiveTypes.Int64, `[3,4]`, plain})
	indexed := indexedBatch(distinct, []byte{1, 0})
	a, b := `{"name":"a",`+plain+`}`, `{"name":"b",`+plain+`}`
	swapped := arrow.NewSchema([]arrow.Field{distinct.Schema().Field(1), distinct.Schema().Field(0)}, nil)
	expanded := expandedByArrow(t, indexed)
	text := `{"columns":[` + b + `,` + a + `]}`
	requireSameBlocks(t, compiled(t, swapped, text), array.NewRecordBatch(swapped, []arrow.Array{expanded.Column(1), expanded.Column(0)}, 2),
		compiled(t, indexed.Schema(), text), indexed)
	for name, columns := range map[string]string{
		"a column too few":   a,
		"a column too many":  a + `,` + b + `,` + strings.Replace(a, `"a"`, `"c"`, 1),
		"a column twice":     a + `,` + a,
		"one with its entry": a + `,` + strings.Replace(b, `"name"`, `"entry":"e","name"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := tensor.ReadPlan([]byte(`{"columns":[`+columns+`]}`), nil)
			require.NoError(t, err)
			_, err = tensor.Compile(indexed.Schema(), plan)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

// spec: blocks-6
func TestExpandedIndicesOutsideOfTheirRowsAreCorrupt(t *testing.T) {
	distinct, text := batchOf(t, batch.Default(), column{"a", arrow.PrimitiveTypes.Int64, `[1,2]`, plain})
	whole := indexedBatch(distinct, []byte{1, 0}).Column(0).(*array.Dictionary)
	short := array.NewDictionaryArray(whole.DataType(), whole.Indices(), array.NewSlice(whole.Dictionary(), 0, 1))
	rows := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "e", Type: whole.DataType()}}, nil), []arrow.Array{short}, 2)
	_, err := compiled(t, rows.Schema(), text).Size(rows)
	require.EqualError(t, err, "column 'e' refers to rows that are not among the 1 it came with")
}
