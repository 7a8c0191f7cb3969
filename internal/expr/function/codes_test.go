package function

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
)

// TestHashIsTheBucketOfIceberg compares the codes with the buckets of tables, and with examples of Iceberg's specification.
//
// spec: function-13
func TestHashIsTheBucketOfIceberg(t *testing.T) {
	t.Parallel()
	for _, g := range []generator{ints32(), ints64(), strs(), binaries()} {
		c := trial{name: "hash", args: []generator{g, literal(arrow.PrimitiveTypes.Int32, int32(977), "977")}}
		in := c.random(t, 1000)
		out, err := in.run(t, c.bind(t, in), 0, in.n)
		require.NoError(t, err)
		want, err := bucket.Array(nil, in.args[0], 977)
		require.NoError(t, err)
		for i, b := range want {
			require.Equal(t, b == bucket.Null, out.IsNull(i))
			if b != bucket.Null {
				require.Equal(t, int64(b), out.(*array.Int64).Value(i))
			}
		}
		out.Release()
	}
	all := literal(arrow.PrimitiveTypes.Int32, int32(1<<31-1), "2147483647")
	out, err := call(t, "hash", []generator{ints32(), all}, []any{int32(34)}, []any{int32(1<<31 - 1)})
	require.NoError(t, err)
	require.Equal(t, int64(2017239379), out.(*array.Int64).Value(0))
	out.Release()
	out, err = call(t, "hash", []generator{strs(), all}, []any{"iceberg"}, []any{int32(1<<31 - 1)})
	require.NoError(t, err)
	require.Equal(t, int64(1210000089), out.(*array.Int64).Value(0))
	out.Release()
}

// TestBucketizeIsExact checks bounds beyond the range of integers, and integers beyond the precision of floats.
//
// spec: function-15
func TestBucketizeIsExact(t *testing.T) {
	t.Parallel()
	bounds := numberList("…", arrow.PrimitiveTypes.Float64, -1e300, -0.5, 9007199254740992.0, 1e300)
	for x, want := range map[int64]int64{-1 << 63: 1, -1: 1, 0: 2, 1 << 53: 2, 1<<53 + 1: 3, 1<<63 - 1: 3} {
		out, err := call(t, "bucketize", []generator{ints64(), bounds}, []any{x}, []any{bounds.value(nil)})
		require.NoError(t, err)
		require.Equal(t, want, out.(*array.Int64).Value(0), x)
		out.Release()
	}
	tenth := numberList("0.1", arrow.PrimitiveTypes.Float64, 0.1)
	out, err := call(t, "bucketize", []generator{floats32(), tenth}, []any{float32(0.1)}, []any{tenth.value(nil)})
	require.NoError(t, err)
	require.Equal(t, int64(0), out.(*array.Int64).Value(0), "bounds are rounded to the type of the argument")
	out.Release()
}

func bindLiterals(t *testing.T, name string, of arrow.DataType, literals ...generator) error {
	t.Helper()
	args := []Argument{{Type: of}}
	for _, g := range literals {
		l := column(t, g.dt, []any{g.value(nil)})
		defer l.Release()
		args = append(args, Argument{Type: g.dt, Literal: l})
	}
	_, err := Bind(name, args)
	return err
}

// TestListsOfCodesAreChecked checks the errors for bounds that do not ascend, values that occur twice, nulls and columns.
//
// spec: function-17
func TestListsOfCodesAreChecked(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	require.ErrorContains(t, bindLiterals(t, "bucketize", long, numberList("", long, int64(1), int64(1))), "ascending")
	require.ErrorContains(t, bindLiterals(t, "bucketize", arrow.PrimitiveTypes.Float64, numberList("", long, int64(1<<53+1))), "no equal double")
	require.ErrorContains(t, bindLiterals(t, "bucketize", long, numberList("", long, int64(1), nil)), "takes a number")
	require.ErrorContains(t, bindLiterals(t, "lookup", long, numberList("", long, int64(1), int64(1))), "twice")
	require.ErrorContains(t, bindLiterals(t, "lookup", long, numberList("", arrow.BinaryTypes.String, "a")), "takes an int")
	require.ErrorContains(t, bindLiterals(t, "hash", long, literal(long, int64(0), "0")), "from 1 to")
	_, err := Bind("bucketize", []Argument{{Type: long}, {Type: arrow.ListOf(long)}})
	require.ErrorContains(t, err, "literal list")
}

// TestLookupFailsForOtherValues checks that a value without a code is an error that names it.
//
// spec: function-16
func TestLookupFailsForOtherValues(t *testing.T) {
	t.Parallel()
	words := numberList("…", arrow.BinaryTypes.String, "a", "b")
	_, err := call(t, "lookup", []generator{strs(), words}, []any{"b", nil, "c"}, []any{words.value(nil)})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "lookup('c', ")
}

// TestLargeVocabularies looks up values in a list of 100,000.
func TestLargeVocabularies(t *testing.T) {
	t.Parallel()
	items := make([]any, 100_000)
	for i := range items {
		items[i] = int64(i * 3)
	}
	values := literal(arrow.ListOf(arrow.PrimitiveTypes.Int64), items, "…")
	for _, name := range []string{"lookup", "bucketize"} {
		out, err := call(t, name, []generator{ints64(), values}, []any{int64(0), int64(299_997), nil}, []any{items})
		require.NoError(t, err)
		require.Equal(t, []int64{0, 99_999}, out.(*array.Int64).Int64Values()[:2])
		require.True(t, out.IsNull(2))
		out.Release()
	}
}
