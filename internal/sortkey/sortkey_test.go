package sortkey_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
)

// sorted has values of each type in ascending order; those on one line are equal.
var sorted = []struct {
	of     arrow.DataType
	values [][]any
}{
	{arrow.FixedWidthTypes.Boolean, [][]any{{false}, {true}}},
	{arrow.PrimitiveTypes.Int32, [][]any{{int32(math.MinInt32)}, {int32(-1)}, {int32(0)}, {int32(1)}, {int32(math.MaxInt32)}}},
	{arrow.PrimitiveTypes.Int64, [][]any{
		{int64(math.MinInt64)},
		{int64(math.MinInt64 + 1)},
		{int64(math.MinInt64 + 2)},
		{int64(-1)},
		{int64(0)},
		{int64(1) << 40},
		{int64(math.MaxInt64 - 1)},
		{int64(math.MaxInt64)},
	}},
	{arrow.PrimitiveTypes.Float32, [][]any{
		{float32(math.Copysign(math.NaN(), -1)), math.Float32frombits(0xffc00123)},
		{float32(math.Inf(-1))},
		{float32(-2)},
		{float32(math.Copysign(0, -1))},
		{float32(0)},
		{float32(2)},
		{float32(math.Inf(1))},
		{float32(math.NaN()), math.Float32frombits(0x7fc00123)},
	}},
	{arrow.PrimitiveTypes.Float64, [][]any{
		{math.Copysign(math.NaN(), -1), math.Float64frombits(0xfff8000000000123)},
		{math.Inf(-1)},
		{-2.0},
		{math.Copysign(0, -1)},
		{0.0},
		{2.0},
		{math.Inf(1)},
		{math.NaN(), math.Float64frombits(0x7ff8000000000123)},
	}},
	{arrow.FixedWidthTypes.Date32, [][]any{{arrow.Date32(-3)}, {arrow.Date32(4)}}},
	{arrow.FixedWidthTypes.Time64us, [][]any{{arrow.Time64(0)}, {arrow.Time64(4)}}},
	{arrow.FixedWidthTypes.Timestamp_ns, [][]any{{arrow.Timestamp(math.MinInt64)}, {arrow.Timestamp(-4)}, {arrow.Timestamp(math.MaxInt64)}}},
	{&arrow.Decimal128Type{Precision: 38, Scale: 2}, [][]any{
		{decimal128.New(math.MinInt64, 0)},
		{decimal128.FromI64(-1)},
		{decimal128.FromI64(0)},
		{decimal128.New(0, math.MaxUint64)},
		{decimal128.New(1, 0)},
		{decimal128.New(math.MaxInt64, math.MaxUint64)},
	}},
	{arrow.BinaryTypes.String, texts(func(s string) any { return s })},
	{arrow.BinaryTypes.Binary, texts(func(s string) any { return []byte(s) })},
	{&arrow.FixedSizeBinaryType{ByteWidth: 9}, [][]any{
		{[]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00")}, {[]byte("aaaaaaa\x00b")}, {[]byte("aaaaaaaaa")}, {[]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
	}},
}

// texts returns texts whose lengths are near the bounds of chunks.
func texts(as func(string) any) [][]any {
	all := []string{"", "\x00", "\x00\x00", "zebra", "é", "\xff"}
	for _, n := range []int{6, 7, 8, 13, 14, 15, 30} {
		for _, end := range []string{"", "\x00", "b", "\xff"} {
			all = append(all, strings.Repeat("a", n)+end)
		}
	}
	slices.Sort(all)
	var out [][]any
	for _, s := range slices.Compact(all) {
		out = append(out, []any{as(s)})
	}
	return out
}

// random returns a column of rows with one of the values, and the rank of each row's value; -1 is null.
func random(r *rand.Rand, of int, rows int) (arrow.Array, []int) {
	one := sorted[of]
	b := array.NewBuilder(memory.DefaultAllocator, one.of)
	defer b.Release()
	before := r.IntN(5)
	nulls := r.IntN(3) // none, few, many
	var ranks []int
	for range before + rows {
		if nulls > 0 && r.IntN(4/nulls) == 0 {
			b.AppendNull()
			ranks = append(ranks, -1)
			continue
		}
		rank := r.IntN(len(one.values))
		ranks = append(ranks, rank)
		appendValue(b, one.values[rank][r.IntN(len(one.values[rank]))])
	}
	whole := b.NewArray()
	defer whole.Release()
	return array.NewSlice(whole, int64(before), int64(before+rows)), ranks[before:]
}

func appendValue(b array.Builder, v any) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Date32Builder:
		b.Append(v.(arrow.Date32))
	case *array.Time64Builder:
		b.Append(v.(arrow.Time64))
	case *array.TimestampBuilder:
		b.Append(v.(arrow.Timestamp))
	case *array.Decimal128Builder:
		b.Append(v.(decimal128.Num))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.FixedSizeBinaryBuilder:
		b.Append(v.([]byte))
	}
}

// compareRanks compares the ranks of two values.
func compareRanks(a, b int, o sortkey.ColumnOrder) int {
	switch {
	case a < 0 && b < 0:
		return 0
	case a < 0 || b < 0:
		if a < 0 == o.NullsFirst {
			return -1
		}
		return 1
	case o.Descending:
		return cmp.Compare(b, a)
	default:
		return cmp.Compare(a, b)
	}
}

// world is random batches and how their rows are ordered.
type world struct {
	spec    *sortkey.KeySpec
	keys    []*sortkey.RowKeys
	ranks   [][][]int // by batch and column
	orders  []sortkey.ColumnOrder
	entries []sortkey.SortEntry // in the order of batches and rows
}

func newWorld(t *testing.T, seed uint64, batches, rows int) *world {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	w := &world{}
	var types []int
	var fields []arrow.Field
	for range 1 + r.IntN(3) {
		of := r.IntN(len(sorted))
		types = append(types, of)
		fields = append(fields, arrow.Field{Name: sorted[of].of.String(), Type: sorted[of].of, Nullable: true})
		w.orders = append(w.orders, sortkey.ColumnOrder{Descending: r.IntN(2) == 0, NullsFirst: r.IntN(2) == 0})
	}
	var err error
	w.spec, err = sortkey.NewKeySpec(fields, w.orders)
	require.NoError(t, err)
	for number := range batches {
		n := r.IntN(rows)
		columns, ranks := make([]arrow.Array, len(types)), make([][]int, len(types))
		for i, of := range types {
			columns[i], ranks[i] = random(r, of, n)
		}
		key, err := w.spec.Keys(columns)
		require.NoError(t, err)
		chunks := make([]uint64, n)
		key.FirstChunks(chunks)
		for row, chunk := range chunks {
			w.entries = append(w.entries, sortkey.SortEntry{Chunk: chunk, Batch: int32(number), Row: int32(row)})
		}
		w.keys, w.ranks = append(w.keys, key), append(w.ranks, ranks)
	}
	return w
}

func (w *world) compare(a, b sortkey.SortEntry) int {
	for i, o := range w.orders {
		if order := compareRanks(w.ranks[a.Batch][i][a.Row], w.ranks[b.Batch][i][b.Row], o); order != 0 {
			return order
		}
	}
	return 0
}

// TestSortIsStableInTheOrderOfValues compares Sort with a stable sort by the ranks of values.
//
// spec: stage-7, stage-8, stage-9
func TestSortIsStableInTheOrderOfValues(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		w := newWorld(t, seed, 1+int(seed%4), 1+int(seed*seed)%900)
		want := slices.Clone(w.entries)
		slices.SortStableFunc(want, w.compare)
		sortkey.Sort(w.entries, make([]sortkey.SortEntry, len(w.entries)), w.keys)
		for i, e := range w.entries {
			if e.Batch != want[i].Batch || e.Row != want[i].Row {
				t.Fatalf("seed %d: row %d is %d of batch %d, not %d of %d", seed, i, e.Row, e.Batch, want[i].Row, want[i].Batch)
			}
		}
	}
}

// TestCompareAndBytesAgreeWithTheOrder compares pairs of rows in all ways that the package has.
//
// spec: stage-7, stage-8
func TestCompareAndBytesAgreeWithTheOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := newWorld(t, seed, 2, 40)
		for _, a := range w.entries {
			for _, b := range w.entries {
				want := w.compare(a, b)
				one, two := w.keys[a.Batch], w.keys[b.Batch]
				require.Equal(t, want, sortkey.Compare(one, int(a.Row), two, int(b.Row)), "seed %d", seed)
				require.Equal(t, want, bytes.Compare(one.Append(nil, int(a.Row)), two.Append(nil, int(b.Row))), "seed %d", seed)
				if a.Chunk != b.Chunk {
					require.Equal(t, want, cmp.Compare(a.Chunk, b.Chunk), "seed %d", seed)
				}
			}
		}
	}
}

// TestLongEqualPrefixesAreSorted sorts texts that differ only after many chunks.
func TestLongEqualPrefixesAreSorted(t *testing.T) {
	t.Parallel()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	const rows, length = 1000, 5000
	for i := range rows {
		b.Append(strings.Repeat("x", length) + fmt.Sprintf("%04d", (i*7919)%rows))
	}
	column := b.NewArray()
	defer column.Release()
	spec, err := sortkey.NewKeySpec([]arrow.Field{{Name: "s", Type: column.DataType()}}, make([]sortkey.ColumnOrder, 1))
	require.NoError(t, err)
	key, err := spec.Keys([]arrow.Array{column})
	require.NoError(t, err)
	chunks, entries := make([]uint64, rows), make([]sortkey.SortEntry, rows)
	key.FirstChunks(chunks)
	for i := range entries {
		entries[i] = sortkey.SortEntry{Chunk: chunks[i], Row: int32(i)}
	}
	sortkey.Sort(entries, make([]sortkey.SortEntry, rows), []*sortkey.RowKeys{key})
	for i, e := range entries {
		require.Equal(t, fmt.Sprintf("%04d", i), column.(*array.String).Value(int(e.Row))[length:])
	}
}

// TestColumnsThatCannotBeSortedByAreRefused names the column and its type.
func TestColumnsThatCannotBeSortedByAreRefused(t *testing.T) {
	t.Parallel()
	list := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	_, err := sortkey.NewKeySpec([]arrow.Field{{Name: "history", Type: list}}, make([]sortkey.ColumnOrder, 1))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "history")
	require.NotEmpty(t, fault.As(err).Remedy)
	spec, err := sortkey.NewKeySpec([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, make([]sortkey.ColumnOrder, 1))
	require.NoError(t, err)
	other := batch.Nulls(arrow.PrimitiveTypes.Int32, 1, memory.DefaultAllocator)
	defer other.Release()
	_, err = spec.Keys([]arrow.Array{other})
	require.Equal(t, fault.Internal, fault.KindOf(err))
	_, err = spec.Keys(nil)
	require.Equal(t, fault.Internal, fault.KindOf(err))
}
