package tensor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/tensor"
)

// fuzzColumns are arrays of one row more than batches have, so that batches are slices.
func fuzzColumns(t testing.TB) []arrow.Array {
	t.Helper()
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	rows := arrow.StructOf(
		arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	)
	var out []arrow.Array
	for _, c := range []struct {
		kind   arrow.DataType
		values string
	}{
		{arrow.PrimitiveTypes.Int64, `[1,2,null,-4]`},
		{arrow.PrimitiveTypes.Int8, `[1,null,3,4]`},
		{arrow.PrimitiveTypes.Float64, `[1.5,null,1e300,-0.0]`},
		{arrow.FixedWidthTypes.Boolean, `[true,null,false,true]`},
		{arrow.FixedWidthTypes.Date32, `[1,2,null,4]`},
		{&arrow.Decimal128Type{Precision: 30, Scale: 3}, `["1.5","22",null,"3"]`},
		{&arrow.Decimal32Type{Precision: 9, Scale: 2}, `["1.5","22",null,"3"]`},
		{arrow.BinaryTypes.String, `["a","b",null,"d"]`},
		{arrow.BinaryTypes.LargeBinary, `["YQ==","",null,"YQ=="]`},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), `[[1],[2,null],null,[]]`},
		{arrow.LargeListOf(arrow.BinaryTypes.String), `[["a"],["b",null],null,[]]`},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1,2],null,[3,null],[4,5]]`},
		{dictionary, `["a","b",null,"a"]`},
		{extensions.NewBool8Type(), `[true,null,false,true]`},
		{rows, `[{"n":1,"l":[1]},null,{"n":null,"l":null},{"n":3,"l":[]}]`},
	} {
		a, _, err := array.FromJSON(batch.Default(), c.kind, strings.NewReader(c.values))
		require.NoError(t, err)
		if a.DataType().ID() == arrow.STRUCT {
			indices, _, err := array.FromJSON(batch.Default(), arrow.PrimitiveTypes.Int32, strings.NewReader(`[3,0,1,1]`))
			require.NoError(t, err)
			a = array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: rows}, indices, a)
		}
		out = append(out, a)
	}
	return out
}

// FuzzFill tries plans for a column, or for all fields of an indexed column. Whatever the plan is, a block depends only
// on the batch, not on the earlier contents of its memory or on the number of cores. A block of rows of the column
// has the same bytes if the column is expanded first, by Arrow, or by Fill.
func FuzzFill(f *testing.F) {
	const zero = `"AAAAAAAAAAA="`
	for i, plan := range []string{
		`{"columns":[{"name":"c","form":"values","source":"int64","conversion":"same","dtype":"int64","nulls":"fill","fill":` + zero + `,"mask":true}]}`,
		`{"columns":[{"name":"c","form":"values","source":"int8","conversion":"hash","buckets":7,"dtype":"int32","nulls":"fill","fill":"AAAAAA=="}]}`,
		`{"columns":[{"name":"c","form":"values","source":"float64","conversion":"same","dtype":"float16","nulls":"fill","fill":"AAA="}],"packs":[{"name":"x","entry":"","columns":["c"]}]}`,
		`{"columns":[{"name":"c","form":"values","source":"bool","conversion":"same","dtype":"bfloat16","nulls":"fill","fill":"AAA="}]}`,
		`{"columns":[{"name":"c","form":"values","source":"date32","conversion":"ticks","dtype":"int64","nulls":"error"}]}`,
		`{"columns":[{"name":"c","form":"values","source":"decimal128","conversion":"nearest32","dtype":"float32","nulls":"fill","fill":"AAAAAA=="}]}`,
		`{"columns":[{"name":"c","form":"values","source":"decimal32","conversion":"unscaled","dtype":"int64","nulls":"fill","fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"values","source":"string","conversion":"lookup","dtype":"int64","unknown":9,"nulls":"fill","fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"values","source":"large_binary","conversion":"lookup","dtype":"int64","nulls":"fill","fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"lists","source":"int64","conversion":"same","dtype":"int64","nulls":"empty","element_nulls":"fill","element_fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"large_lists","source":"string","conversion":"hash","buckets":3,"dtype":"int64","nulls":"empty","element_nulls":"fill","element_fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"fixed_lists","width":2,"source":"float32","conversion":"same","dtype":"float32","nulls":"fill","fill":"AAAAAA==","element_nulls":"fill","element_fill":"AAAAAA=="}]}`,
		`{"columns":[{"name":"c","form":"values","source":"string","dictionary":true,"conversion":"lookup","unknown":2,"dtype":"int64","nulls":"fill","fill":` + zero + `}]}`,
		`{"columns":[{"name":"c","form":"values","source":"int8","conversion":"same","dtype":"int8","nulls":"fill","fill":"AA=="}]}`,
		`{"columns":[{"entry":"c","name":"n","form":"values","source":"int64","conversion":"same","dtype":"int64","nulls":"fill","fill":` + zero + `},` +
			`{"entry":"c","name":"l","form":"lists","source":"int64","conversion":"same","dtype":"int64","nulls":"empty","element_nulls":"error"}],"packs":[{"name":"x","entry":"c","columns":["n"]}]}`,
	} {
		f.Add(i, plan, uint8(1), uint8(4), []byte{2, 0, 1, 1, 0})
		f.Add(i, plan, uint8(0), uint8(0), []byte{})
		f.Add(i, plan, uint8(0), uint8(4), []byte{3, 3})
	}
	columns := fuzzColumns(f)
	codes := array.NewInt64Builder(batch.Default())
	codes.AppendValues([]int64{3, 4}, nil)
	values, _, err := array.FromJSON(batch.Default(), arrow.BinaryTypes.String, strings.NewReader(`["a","b"]`))
	require.NoError(f, err)
	vocabulary, err := tensor.NewVocabulary(values, codes.NewInt64Array())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, at int, text string, from, to uint8, references []byte) {
		plan, err := tensor.ReadPlan([]byte(text), []*tensor.Vocabulary{vocabulary})
		if err != nil || at < 0 || at >= len(columns) || from > to || int(to) > columns[at].Len() {
			return
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: columns[at].DataType(), Nullable: true}}, nil)
		layout, err := tensor.Compile(schema, plan)
		if err != nil {
			return
		}
		whole := array.NewRecordBatch(schema, columns[at:at+1], int64(columns[at].Len()))
		rows := whole.NewSlice(int64(from), int64(to))
		if from < to && rows.Column(0).DataType().ID() != arrow.DICTIONARY {
			indexed := indexedBatch(rows, references)
			expanding, err := tensor.Compile(indexed.Schema(), plan)
			require.NoError(t, err)
			requireSameBlocks(t, layout, expandedByArrow(t, indexed), expanding, indexed)
		}
		sizes, err := layout.Size(rows)
		if err != nil {
			return
		}
		block := slices.Repeat([]byte{0xff}, int(sizes.Bytes))
		err = layout.Fill(rows, sizes, block, nil)
		other := make([]byte, sizes.Bytes)
		if again := layout.Fill(rows, sizes, other, cores.New(3)); err != nil {
			require.EqualError(t, again, err.Error())
			return
		}
		require.Equal(t, block, other)
		require.Zero(t, len(block)%tensor.Alignment)
	})
}
