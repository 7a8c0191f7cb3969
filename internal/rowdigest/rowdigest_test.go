package rowdigest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/rowdigest"
)

// types has a column of each type that tables have, with values in JSON that differ from one another.
func types() (fields []arrow.Field, values [][]string) {
	add := func(t arrow.DataType, of ...string) {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d %s", len(fields), t), Type: t, Nullable: true})
		values = append(values, append(of, "null"))
	}
	p, f := arrow.PrimitiveTypes, arrow.FixedWidthTypes
	add(f.Boolean, "true", "false")
	add(p.Int32, "0", "1", "-7")
	add(p.Int64, "0", "9000000000")
	add(p.Float32, "0", "0.5", `"NaN"`)
	add(p.Float64, "0", "-0.25", `"NaN"`)
	add(f.Date32, `"2026-10-01"`, `"1969-12-31"`)
	add(f.Time64us, `"00:00:00"`, `"12:30:00"`)
	add(f.Timestamp_us, `"2026-10-01T00:00:00Z"`, `"2026-10-01T00:00:01Z"`)
	add(&arrow.Decimal128Type{Precision: 9, Scale: 2}, `"0.00"`, `"-12.30"`)
	add(&arrow.FixedSizeBinaryType{ByteWidth: 2}, `"AAA="`, `"AAE="`)
	add(arrow.BinaryTypes.String, `""`, `"a"`, `"ab"`, `"b"`)
	add(arrow.BinaryTypes.Binary, `""`, `"AA=="`, `"AAA="`)
	add(arrow.ListOf(p.Int64), "[]", "[0]", "[0, 0]", "[null]", "[1]")
	add(arrow.ListOf(arrow.BinaryTypes.String), "[]", `["a", "b"]`, `["ab"]`, `["ab", ""]`)
	add(arrow.StructOf(arrow.Field{Name: "a", Type: p.Int32, Nullable: true}, arrow.Field{Name: "b", Type: arrow.ListOf(f.Boolean), Nullable: true}),
		`{"a": 0, "b": []}`, `{"a": null, "b": null}`, `{"a": 1, "b": [true, null]}`)
	add(arrow.MapOf(arrow.BinaryTypes.String, p.Int64), `[]`, `[{"key": "a", "value": 1}]`, `[{"key": "a", "value": null}]`)
	return fields, values
}

// column returns a column of values in JSON.
func column(t *testing.T, f arrow.Field, rows []string) arrow.Array {
	out, _, err := array.FromJSON(memory.DefaultAllocator, f.Type, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(t, err)
	return out
}

// sum returns the digest of columns that are added in the parts that end at some rows.
func sum(t *testing.T, fields []arrow.Field, columns []arrow.Array, ends ...int) string {
	r, err := rowdigest.New(arrow.NewSchema(fields, nil))
	require.NoError(t, err)
	from := 0
	for _, end := range ends {
		parts := make([]arrow.Array, len(columns))
		for i, c := range columns {
			parts[i] = array.NewSlice(c, int64(from), int64(end))
		}
		r.Add(parts)
		from = end
	}
	out := r.Sum()
	require.Equal(t, out, r.Sum(), "a sum changes nothing")
	return out
}

// The digest does not depend on batches and offsets, and each value counts.
//
// spec: stage-144
func TestDigestsAreOfValues(t *testing.T) {
	const rows = 40
	fields, values := types()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // cases of a test
		texts, columns := make([][]string, len(fields)), make([]arrow.Array, len(fields))
		for i, f := range fields {
			for range rows {
				texts[i] = append(texts[i], values[i][random.IntN(len(values[i]))])
			}
			columns[i] = column(t, f, texts[i])
		}
		want := sum(t, fields, columns, rows)
		require.Len(t, want, 64)
		cut := random.IntN(rows + 1)
		require.Equal(t, want, sum(t, fields, columns, cut, cut, cut+(rows-cut)/2, rows))
		for i, f := range fields {
			at := random.IntN(rows)
			changed, other := append([]string{}, texts[i]...), append([]arrow.Array{}, columns...)
			for changed[at] == texts[i][at] {
				changed[at] = values[i][random.IntN(len(values[i]))]
			}
			other[i] = column(t, f, changed)
			require.NotEqual(t, want, sum(t, fields, other, rows), "%s: row %d is %s instead of %s", f.Name, at, changed[at], texts[i][at])
		}
		swapped := append([]arrow.Field{}, fields...)
		swapped[1].Name, swapped[2].Name = swapped[2].Name, swapped[1].Name
		require.NotEqual(t, want, sum(t, swapped, columns, rows), "names count")
		require.NotEqual(t, want, sum(t, fields, columns, rows-1), "each row counts")
		swapped[1], swapped[2] = fields[2], fields[1]
		columns[1], columns[2] = columns[2], columns[1]
		require.Equal(t, want, sum(t, swapped, columns, rows), "the order of columns does not count")
	}
}

// A column of nulls is as if it were absent, except that the number of rows counts.
//
// spec: stage-144
func TestColumnsOfNullsAreAbsent(t *testing.T) {
	fields, _ := types()
	var columns []arrow.Array
	for _, f := range fields {
		columns = append(columns, column(t, f, []string{"null", "null"}))
	}
	id := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64}
	ids := column(t, id, []string{"1", "2"})
	require.Equal(t, sum(t, []arrow.Field{id}, []arrow.Array{ids}, 2), sum(t, append(fields, id), append(columns, ids), 2))
	require.NotEqual(t, sum(t, fields, columns, 1), sum(t, fields, columns, 2))
}

// Bytes under nulls, which writers leave as they are, do not count.
//
// spec: stage-144
func TestBytesUnderNullsDoNotCount(t *testing.T) {
	under := func(numbers []int64, text string) string {
		validity := memory.NewBufferBytes([]byte{0b101})
		ids := array.MakeFromData(array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{validity, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(numbers))}, nil, 1, 0))
		offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1, int32(1 + len(text)), int32(2 + len(text))})) //nolint:gosec // short
		texts := array.MakeFromData(array.NewData(arrow.BinaryTypes.String, 3, []*memory.Buffer{validity, offsets, memory.NewBufferBytes([]byte("a" + text + "b"))}, nil, 1, 0))
		nested := array.NewData(arrow.StructOf(arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), 3, []*memory.Buffer{validity}, []arrow.ArrayData{
			array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(numbers))}, nil, 0, 0),
		}, 1, 0)
		fields := []arrow.Field{{Name: "id", Type: ids.DataType()}, {Name: "text", Type: texts.DataType()}, {Name: "nested", Type: nested.DataType()}}
		return sum(t, fields, []arrow.Array{ids, texts, array.MakeFromData(nested)}, 3)
	}
	require.Equal(t, under([]int64{1, 0, 2}, ""), under([]int64{1, math.MaxInt64, 2}, "xyz"))
	require.NotEqual(t, under([]int64{1, 0, 2}, ""), under([]int64{1, 0, 3}, ""))
}

func TestTypesThatTablesDoNotHave(t *testing.T) {
	_, err := rowdigest.New(arrow.NewSchema([]arrow.Field{{Name: "small", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "column small")
}

// BenchmarkDigest measures the digest of the history of a user: lists of items, texts and numbers.
func BenchmarkDigest(b *testing.B) {
	const rows, items = 4096, 50
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // cases of a benchmark
	list := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	texts, ids := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for row := range rows {
		list.Append(true)
		for range items {
			list.ValueBuilder().(*array.Int64Builder).Append(random.Int64()) //nolint:forcetypeassert // made above
		}
		ids.Append(int64(row))
		texts.Append(fmt.Sprintf("country-%d", row%100))
	}
	columns := []arrow.Array{ids.NewArray(), texts.NewArray(), list.NewArray()}
	r, err := rowdigest.New(arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: columns[0].DataType()}, {Name: "country", Type: columns[1].DataType()}, {Name: "history", Type: columns[2].DataType()},
	}, nil))
	require.NoError(b, err)
	b.SetBytes(rows * (8 + 10 + 4 + 8*items))
	for b.Loop() {
		r.Add(columns)
	}
	require.NotEmpty(b, r.Sum())
}
