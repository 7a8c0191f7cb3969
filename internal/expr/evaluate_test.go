package expr

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/fault"
)

// bind parses and binds a valid filter.
func bind(t testing.TB, text string, schema *arrow.Schema) *Filter {
	t.Helper()
	e, err := Parse(text)
	require.NoError(t, err, text)
	f, err := e.Bind(schema)
	require.NoError(t, err, text)
	return f
}

// batchOf makes a batch of JSON rows.
func batchOf(t testing.TB, mem memory.Allocator, schema *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	batch, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(rows))
	require.NoError(t, err)
	return batch
}

func TestThreeValuedLogic(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
	// Rows: a is T, T, T, F, F, F, N, N, N; b is T, F, N, T, F, N, T, F, N.
	batch := batchOf(t, memory.DefaultAllocator, schema, `[
		{"a": true, "b": true}, {"a": true, "b": false}, {"a": true, "b": null},
		{"a": false, "b": true}, {"a": false, "b": false}, {"a": false, "b": null},
		{"a": null, "b": true}, {"a": null, "b": false}, {"a": null, "b": null}]`)
	defer batch.Release()
	for text, want := range map[string][]int32{
		"a":                                 {0, 1, 2},
		"NOT a":                             {3, 4, 5},
		"a IS NULL":                         {6, 7, 8},
		"a IS NOT NULL":                     {0, 1, 2, 3, 4, 5},
		"a AND b":                           {0},
		"NOT (a AND b)":                     {1, 3, 4, 5, 7},
		"a OR b":                            {0, 1, 2, 3, 6},
		"NOT (a OR b)":                      {4},
		"a = b":                             {0, 4},
		"a <> b":                            {1, 3},
		"NOT a = b":                         {1, 3},
		"a < b":                             {3},
		"a >= b":                            {0, 1, 4},
		"a IN (TRUE)":                       {0, 1, 2},
		"a NOT IN (TRUE)":                   {3, 4, 5},
		"NOT a IS NULL AND NOT b":           {1, 4},
		"(a OR TRUE) AND b":                 {0, 3, 6},
		"a AND NOT a":                       {},
		"a OR NOT a":                        {0, 1, 2, 3, 4, 5},
		"NOT (a IS NULL OR b)":              {1, 4},
		"a IS NULL AND b IS NULL":           {8},
		"TRUE":                              {0, 1, 2, 3, 4, 5, 6, 7, 8},
		"FALSE":                             {},
		"a IS NULL OR a OR b":               {0, 1, 2, 3, 6, 7, 8},
		"a AND (b OR b IS NULL)":            {0, 2},
		"(a OR b) AND (NOT a OR b IS NULL)": {2, 3},
	} {
		got, err := bind(t, text, schema).Evaluate(batch, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, append([]int32{}, got...), text)
	}
}

func TestEvaluateTypes(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	for _, c := range []struct {
		column string
		values string // JSON, in ascending order, then null
		want   map[string][]int32
	}{
		{"i", `[-2147483648, -1, 0, 2, 2147483647, null]`, map[string][]int32{
			"i < 0": {0, 1}, "i <= 0": {0, 1, 2}, "i > 0": {3, 4}, "i >= 0.5": {3, 4}, "i = 2": {3}, "i <> 2": {0, 1, 2, 4},
			"i < 99999999999": {0, 1, 2, 3, 4}, "NOT i < 99999999999": {}, "i IN (2, 0, 7)": {2, 3}, "i NOT IN (2, 0)": {0, 1, 4},
			"i IN (-1, 0, 1, 2, 3, 4, 5, 6)": {1, 2, 3}, "i NOT IN (-1, 0, 1, 2, 3, 4, 5, 6)": {0, 4},
			"i BETWEEN -1 AND 2": {1, 2, 3}, "i NOT BETWEEN -1 AND 2": {0, 4},
		}},
		{"l", `[-9223372036854775808, -1, 0, 9223372036854775807, null]`, map[string][]int32{
			"l >= 9223372036854775807": {3}, "l < -9223372036854775807": {0}, "l <= -9223372036854775808": {0},
		}},
		{"n", `["-1.01", "-1.00", "0.00", "1.50", null]`, map[string][]int32{
			"n = -1": {1}, "n < -1.005": {0}, "n >= 1.5": {3}, "n > 1e30": {}, "n IN (0, 1.5, 9)": {2, 3}, "n <= 0": {0, 1, 2},
		}},
		{"s", `["", "a", "ab", "b", "é", null]`, map[string][]int32{
			"s = ''": {0}, "s < 'ab'": {0, 1}, "s <= 'ab'": {0, 1, 2}, "s > 'z'": {4}, "s IN ('a', 'é', 'z')": {1, 4}, "s <> 'a'": {0, 2, 3, 4},
		}},
		{"u", `["", "a", "ab", null]`, map[string][]int32{"u >= 'a'": {1, 2}, "u NOT IN ('a', 'c')": {0, 2}}},
		{"x", `["", "AA==", "AP8=", "/w==", null]`, map[string][]int32{"x = X'00'": {1}, "x > X'00'": {2, 3}, "x IN (X'', X'ff')": {0, 3}}},
		{"y", `["AAA=", "AAE=", "//8=", null]`, map[string][]int32{"y > X'0000'": {1, 2}, "y = X'0001'": {1}, "y >= X'ff'": {2}}},
		{"z", `["", "AP8=", null]`, map[string][]int32{"z <> X''": {1}}},
		{"d", `["1969-12-31", "1970-01-01", "2026-10-01", null]`, map[string][]int32{
			"d < DATE '1970-01-01'": {0}, "d IN ('2026-10-01', '2026-10-02')": {2}, "d >= '1969-12-31'": {0, 1, 2},
		}},
		{"t", `["00:00:00", "12:30:00", "23:59:59.999999", null]`, map[string][]int32{
			"t > TIME '12:30'": {2}, "t <= '12:30:00.0000005'": {0, 1}, "t = TIME '23:59:59.999999'": {2},
		}},
		{"p", `["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2026-10-01 12:00:00", null]`, map[string][]int32{
			"p < DATE '1970-01-01'": {0}, "p = TIMESTAMP '2026-10-01 12:00'": {2}, "p > '1969-12-31 23:59:59.9999985'": {0, 1, 2},
		}},
		{"q", `["1970-01-01T00:00:00Z", "2026-10-01T12:00:00Z", null]`, map[string][]int32{
			"q = TIMESTAMP '2026-10-01 14:00:00+02:00'": {1}, "q = '2026-10-01 12:00'": {1}, "q < TIMESTAMP '1970-01-01 00:00:01Z'": {0},
		}},
		{"r", `["1970-01-01 00:00:00", "2026-10-01 12:00:00.000000001", null]`, map[string][]int32{
			"r > TIMESTAMP '2026-10-01 12:00:00'": {1}, "r = '2026-10-01 12:00:00.000000001'": {1}, "r < '9999-01-01'": {0, 1},
		}},
		{"list", `[[1], [], null]`, map[string][]int32{"list IS NULL": {2}, "list IS NOT NULL": {0, 1}}},
	} {
		field, _ := everyType().FieldsByName(c.column)
		a, _, err := array.FromJSON(mem, field[0].Type, strings.NewReader(c.values))
		require.NoError(t, err)
		schema := arrow.NewSchema(field, nil)
		batch := array.NewRecordBatch(schema, []arrow.Array{a}, int64(a.Len()))
		a.Release()
		for text, want := range c.want {
			got, err := bind(t, text, schema).Evaluate(batch, nil, nil)
			require.NoError(t, err)
			require.Equal(t, want, append([]int32{}, got...), text)
		}
		batch.Release()
	}
}

func TestNaNIsGreatestAndEqualToItself(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "g", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	nan, inf := math.NaN(), math.Inf(1)
	for _, v := range []float64{-inf, -1, math.Copysign(0, -1), 0, 0.1, inf, nan} {
		b.Field(0).(*array.Float32Builder).Append(float32(v))
		b.Field(1).(*array.Float64Builder).Append(v)
	}
	b.Field(0).AppendNull()
	b.Field(1).(*array.Float64Builder).Append(nan)
	batch := b.NewRecordBatch()
	defer batch.Release()
	for text, want := range map[string][]int32{
		"g < 0":                  {0, 1},
		"g <= 0":                 {0, 1, 2, 3},
		"g = 0":                  {2, 3},
		"g > 0":                  {4, 5, 6, 7},
		"NOT g > 0":              {0, 1, 2, 3},
		"g <> 0":                 {0, 1, 4, 5, 6, 7},
		"g > 1e400":              {5, 6, 7},
		"g < 1e400":              {0, 1, 2, 3, 4},
		"g < -1e400":             {0},
		"g >= -1e400":            {1, 2, 3, 4, 5, 6, 7},
		"f = 0.1":                {4},
		"f IN (0.1, 0, 1e39)":    {2, 3, 4},
		"f NOT IN (0.1, 0)":      {0, 1, 5, 6},
		"f > 1e39":               {5, 6},
		"f = g":                  {0, 1, 2, 3, 5, 6},
		"f > g":                  {4},
		"f <= g":                 {0, 1, 2, 3, 5, 6},
		"f BETWEEN -1 AND 1e400": {1, 2, 3, 4},
	} {
		got, err := bind(t, text, schema).Evaluate(batch, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, append([]int32{}, got...), text)
	}
}

func TestEvaluateReusesMemoryAndColumnsByName(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	f := bind(t, "i > 1 AND s <> 'x'", schema)
	other := arrow.NewSchema([]arrow.Field{
		{Name: "extra", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.LargeString, Nullable: true},
		{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
	batch := batchOf(t, memory.DefaultAllocator, other, `[{"s": "a", "i": 2}, {"s": "x", "i": 3}, {"s": "b", "i": 1}, {"s": "c", "i": 4}]`)
	defer batch.Release()
	dst := []int32{9, 9, 9, 9}
	got, err := f.Evaluate(batch, dst, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 3}, got)
	require.Same(t, &dst[0], &got[0])

	empty := batch.NewSlice(1, 1)
	defer empty.Release()
	got, err = f.Evaluate(empty, got, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	var all *Filter
	got, err = all.Evaluate(batch, got, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3}, got)
}

func TestEvaluateRefusesMissingColumnsAndOtherTypes(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int32}}, nil)
	f := bind(t, "i > 1", schema)
	for name, other := range map[string]*arrow.Schema{
		"missing": arrow.NewSchema([]arrow.Field{{Name: "j", Type: arrow.PrimitiveTypes.Int32}}, nil),
		"type":    arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64}}, nil),
		"twice": arrow.NewSchema([]arrow.Field{
			{Name: "i", Type: arrow.PrimitiveTypes.Int32}, {Name: "i", Type: arrow.PrimitiveTypes.Int32},
		}, nil),
	} {
		batch := batchOf(t, memory.DefaultAllocator, other, `[{}]`)
		_, err := f.Evaluate(batch, nil, nil)
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
		require.ErrorContains(t, err, `"i"`, name)
		batch.Release()
	}
}

func TestFiltersAreSafeForConcurrentUse(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, nil)
	f := bind(t, "i = 1 OR i > 5 OR i IS NULL", schema)
	var rows strings.Builder
	for range 50 {
		rows.WriteString(`,{"i": 1}, {"i": 2}, {"i": 7}, {}`)
	}
	batch := batchOf(t, memory.DefaultAllocator, schema, "["+rows.String()[1:]+"]")
	defer batch.Release()
	slice := batch.NewSlice(3, 180)
	defer slice.Release()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var dst []int32
			for range 50 {
				var err error
				dst, err = f.Evaluate(slice, dst, nil)
				if err != nil || len(dst) != 133 {
					t.Errorf("%d rows, %v", len(dst), err)
				}
			}
		})
	}
	group.Wait()
}

func TestLoadBits(t *testing.T) {
	bits := []byte{0x5a, 0xc3, 0x0f, 0xf0, 0x99, 0x66, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc}
	at := func(i int) uint64 { return uint64(bits[i>>3]>>(i&7)) & 1 }
	for position := range 96 {
		for n := 1; n <= 64 && position+n <= 96; n++ {
			word := operator.LoadBits(bits, position, n)
			for i := range n {
				require.Equal(t, at(position+i), word>>i&1, "position %d, n %d, bit %d", position, n, i)
			}
		}
	}
}
