package keyset_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/keyset"
)

// keysOf returns a batch with the columns of a key; null is a null.
func keysOf(t *testing.T, schema *arrow.Schema, rows []string) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, row := range rows {
		null := row == "null"
		for i := range schema.NumFields() {
			if null && i == schema.NumFields()-1 {
				b.Field(i).AppendNull()
				continue
			}
			if null {
				row = "7"
			}
			require.NoError(t, b.Field(i).AppendValueFromString(row))
			row += "0"
		}
	}
	return b.NewRecordBatch()
}

func columns(types ...arrow.DataType) *arrow.Schema {
	var fields []arrow.Field
	for i, of := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("k", i), Type: of, Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}

// A set has the keys that were added, and no others; those of narrower integers are the same.
//
// spec: stage-49
func TestSetsHaveTheKeysThatWereAdded(t *testing.T) {
	t.Parallel()
	long, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	for _, c := range []struct{ added, asked *arrow.Schema }{
		{columns(long), columns(long)},
		{columns(arrow.PrimitiveTypes.Int32), columns(long)},
		{columns(text), columns(text)},
		{columns(long, text), columns(arrow.PrimitiveTypes.Int32, text)},
	} {
		limit := budget.New(1 << 30)
		set, err := keyset.New(limit, "the keys", -1)
		require.NoError(t, err)
		in := map[string]bool{}
		r := rand.New(rand.NewPCG(1, 2))
		for range 40 {
			rows := []string{"null"}
			for range 2000 {
				row := strconv.Itoa(2 * r.IntN(30_000))
				rows, in[row] = append(rows, row, row), true
			}
			b := keysOf(t, c.added, rows)
			require.NoError(t, set.Add(t.Context(), b))
			b.Release()
		}
		set.Freeze()
		require.EqualValues(t, len(in), set.Len())
		require.LessOrEqual(t, limit.Used(), keyset.BytesFor(set.Len()))
		asked := []string{"null"}
		for i := range 60_000 {
			asked = append(asked, strconv.Itoa(i))
		}
		b := keysOf(t, c.asked, asked)
		found := make([]bool, len(asked))
		require.NoError(t, set.Contains(t.Context(), b, found))
		for i, key := range asked {
			require.Equal(t, in[key], found[i], "key %s of %s", key, c.asked)
		}
		b.Release()
		set.Release()
		require.Zero(t, limit.Used())
	}
}

// Keys that do not fit end the reading of them. BytesFor is enough for them.
//
// spec: stage-50
func TestKeysThatDoNotFit(t *testing.T) {
	t.Parallel()
	long := columns(arrow.PrimitiveTypes.Int64)
	var rows []string
	for i := range 100_000 {
		rows = append(rows, strconv.Itoa(i))
	}
	b := keysOf(t, long, rows)
	defer b.Release()
	enough := keyset.BytesFor(b.NumRows())
	for limit, fits := range map[int64]bool{enough: true, enough / 4: false, 1: false} {
		memory := budget.New(1 << 30)
		set, err := keyset.New(memory, "the keys", limit)
		if err == nil {
			err = set.Add(t.Context(), b)
			require.LessOrEqual(t, memory.Peak(), limit)
			set.Release()
		}
		require.Equal(t, fits, err == nil, "limit %d: %v", limit, err)
		if !fits {
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
		}
		require.Zero(t, memory.Used())
	}
	full := budget.New(enough / 4)
	set, err := keyset.New(full, "the keys", -1)
	require.NoError(t, err)
	require.Equal(t, fault.Exhausted, fault.KindOf(set.Add(t.Context(), b)))
	set.Release()
	require.Zero(t, full.Used())
}

// Values of nested types are no keys.
func TestNestedKeysAreRefused(t *testing.T) {
	t.Parallel()
	set, err := keyset.New(nil, "the keys", -1)
	require.NoError(t, err)
	defer set.Release()
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	lists.Append(true)
	list := lists.NewArray()
	b := array.NewRecordBatch(columns(list.DataType()), []arrow.Array{list}, 1)
	require.ErrorContains(t, set.Add(t.Context(), b), "cannot be encoded as a key")
	require.ErrorContains(t, set.Contains(t.Context(), b, make([]bool, 1)), "cannot be encoded as a key")
}

// Keys are compared as joins compare them.
func TestComparableTypes(t *testing.T) {
	t.Parallel()
	p := arrow.PrimitiveTypes
	require.True(t, keyset.Comparable(p.Int32, p.Int64))
	require.True(t, keyset.Comparable(arrow.BinaryTypes.String, arrow.BinaryTypes.String))
	require.False(t, keyset.Comparable(p.Float64, p.Float64))
	require.False(t, keyset.Comparable(p.Int64, arrow.FixedWidthTypes.Timestamp_us))
	require.False(t, keyset.Comparable(arrow.BinaryTypes.String, arrow.BinaryTypes.Binary))
}
