package batch_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

func decimalType(scale int32) arrow.DataType {
	return &arrow.Decimal128Type{Precision: 38, Scale: scale}
}

// castable appends a number, often one near the limits of a type.
func castable(s source, dt arrow.DataType, b array.Builder) {
	whole := []int64{
		0, 1, -1, 7, 1 << 24, 1<<24 + 1, 1<<24 + 2, -1<<24 - 1, 1 << 53, 1<<53 + 1, -1<<53 - 1, math.MaxInt32, math.MinInt32,
		math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MaxInt64 - 1023, math.MinInt64, math.MinInt64 + 1, 1 << 62,
	}
	fractions := []float64{
		0, 0.5, 0.1, -2.5, 3, 1e39, -1e39, math.MaxFloat32, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
		math.MaxFloat64, 1 << 31, 1<<31 - 1, -1 << 31, -1<<31 - 1, 1 << 63, -1 << 63, 1e300,
	}
	v := whole[s.IntN(len(whole))]
	if s.IntN(3) == 0 {
		v = int64(s.Uint64()) >> s.IntN(64)
	}
	f := fractions[s.IntN(len(fractions))]
	if s.IntN(3) == 0 {
		f = math.Float64frombits(s.Uint64())
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	case *array.Float32Builder:
		b.Append(float32(f))
	case *array.Float64Builder:
		b.Append(f)
	case *array.BooleanBuilder:
		b.Append(v&1 == 0)
	case *array.Decimal128Builder:
		d := decimal128.FromI64(v)
		if s.IntN(3) == 0 {
			d = decimal128.New(int64(s.Uint64())>>(1+s.IntN(62)), s.Uint64())
		}
		b.Append(d)
	default:
		panic(dt)
	}
}

// exactly returns a number as a fraction; false for NaN and infinities.
func exactly(a arrow.Array, i int) (*big.Rat, float64, bool) {
	switch a := a.(type) {
	case *array.Int32:
		return new(big.Rat).SetInt64(int64(a.Value(i))), 0, true
	case *array.Int64:
		return new(big.Rat).SetInt64(a.Value(i)), 0, true
	case *array.Boolean:
		if a.Value(i) {
			return big.NewRat(1, 1), 0, true
		}
		return new(big.Rat), 0, true
	case *array.Float32:
		r := new(big.Rat).SetFloat64(float64(a.Value(i)))
		return r, float64(a.Value(i)), r != nil
	case *array.Float64:
		r := new(big.Rat).SetFloat64(a.Value(i))
		return r, a.Value(i), r != nil
	default:
		d := a.(*array.Decimal128)
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.DataType().(*arrow.Decimal128Type).Scale)), nil)
		return new(big.Rat).SetFrac(d.Value(i).BigInt(), ten), 0, true
	}
}

// survives computes by exact arithmetic whether a value may be cast, and the result.
func survives(a arrow.Array, i int, to arrow.DataType) (any, bool) {
	r, odd, finite := exactly(a, i)
	fraction := a.DataType().ID() == arrow.DECIMAL128 || a.DataType().ID() == arrow.FLOAT64 || a.DataType().ID() == arrow.FLOAT32
	switch to.ID() {
	case arrow.INT32, arrow.INT64:
		if !finite || !r.IsInt() || !r.Num().IsInt64() {
			return nil, false
		}
		n := r.Num().Int64()
		if to.ID() == arrow.INT32 {
			return int32(n), int64(int32(n)) == n
		}
		return n, true
	case arrow.FLOAT32:
		if !finite {
			return float32(odd), true
		}
		f, exact := r.Float32()
		return f, exact || fraction && !math.IsInf(float64(f), 0)
	default:
		if !finite {
			return odd, true
		}
		f, exact := r.Float64()
		return f, exact || fraction
	}
}

func valueOf(a arrow.Array, i int) any {
	switch a := a.(type) {
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	default:
		return a.(*array.Float64).Value(i)
	}
}

func sameNumber(x, y any) bool {
	if f, ok := x.(float64); ok {
		g := y.(float64)
		return f == g || math.IsNaN(f) && math.IsNaN(g)
	}
	if f, ok := x.(float32); ok {
		g := y.(float32)
		return f == g || f != f && g != g
	}
	return x == y
}

// spec: join-83
func TestCastAgainstExactArithmetic(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	sources := []arrow.DataType{
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.FixedWidthTypes.Boolean, decimalType(0), decimalType(2), decimalType(9), decimalType(20), decimalType(37),
	}
	targets := []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64}
	passed, failed := 0, 0
	for seed := range uint64(3000) {
		s := newSource(seed)
		from, to := sources[s.IntN(len(sources))], targets[s.IntN(len(targets))]
		require.True(t, batch.CanCast(from, to))
		b := array.NewBuilder(memory.DefaultAllocator, from)
		for range 1 + s.IntN(4) {
			if s.IntN(3) == 0 {
				b.AppendNull()
			}
			castable(s, from, b)
		}
		whole := b.NewArray()
		if whole.NullN() > 0 {
			s.spoilNulls(whole.Data())
		}
		begin := s.IntN(whole.Len())
		a := array.NewSlice(whole, int64(begin), int64(whole.Len()))
		broken := -1
		for i := range a.Len() {
			if a.IsValid(i) {
				if _, ok := survives(a, i, to); !ok {
					broken = i
					break
				}
			}
		}
		got, err := batch.Cast(a, to, mem)
		if broken >= 0 {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "seed %d: %s to %s: %s", seed, from, to, a)
			require.ErrorContains(t, err, a.ValueStr(broken))
			failed++
			continue
		}
		require.NoError(t, err, "seed %d: %s to %s: %s", seed, from, to, a)
		passed++
		require.Equal(t, a.Len(), got.Len())
		require.True(t, arrow.TypeEqual(to, got.DataType()))
		if !arrow.TypeEqual(from, to) {
			requireTidy(t, got.Data())
		}
		for i := range a.Len() {
			require.Equal(t, a.IsNull(i), got.IsNull(i))
			if a.IsValid(i) {
				want, _ := survives(a, i, to)
				require.True(t, sameNumber(want, valueOf(got, i)), "seed %d: %s %s to %s: %v, not %v", seed, from, a.ValueStr(i), to, valueOf(got, i), want)
			}
		}
		got.Release()
	}
	require.Greater(t, passed, 800)
	require.Greater(t, failed, 400)
}

// nearestOf fails if a neighbor of got is nearer to the exact number, or equally near
// and got is odd.
func nearestOf(t *testing.T, exact *big.Rat, got float64, neighbors [2]float64, even bool) {
	t.Helper()
	off := func(f float64) *big.Rat {
		d := new(big.Rat).SetFloat64(f)
		return d.Abs(d.Sub(d, exact))
	}
	for _, other := range neighbors {
		nearer := off(other).Cmp(off(got))
		require.True(t, nearer > 0 || nearer == 0 && even, "%s was cast to %v, but %v is nearer", exact.FloatString(40), got, other)
	}
}

// TestCastDecimalsToNearestFloat tries decimals in the middle between two floats, and
// one unit to either side.
//
// spec: join-83
func TestCastDecimalsToNearestFloat(t *testing.T) {
	s := newSource(11)
	for _, scale := range []int32{0, 4, 8, 15, 22, 23, 30} {
		from := decimalType(scale)
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		b := array.NewDecimal128Builder(memory.DefaultAllocator, from.(*arrow.Decimal128Type))
		var values []*big.Rat
		for range 600 {
			odd := int64(s.Uint64()>>[]uint{10, 39}[s.IntN(2)]) | 1 // one bit more than a float has
			middle := new(big.Int).Mul(big.NewInt(odd), ten)
			middle.Rsh(middle, uint(s.IntN(54)))
			middle.Add(middle, big.NewInt(int64(s.IntN(3))-1))
			if s.IntN(2) == 0 {
				middle.Neg(middle)
			}
			if middle.BitLen() > 126 {
				continue
			}
			b.Append(decimal128.FromBigInt(middle))
			values = append(values, new(big.Rat).SetFrac(middle, ten))
		}
		a := b.NewDecimal128Array()
		require.Greater(t, len(values), 300)
		doubles, err := batch.Cast(a, arrow.PrimitiveTypes.Float64, nil)
		require.NoError(t, err)
		singles, err := batch.Cast(a, arrow.PrimitiveTypes.Float32, nil)
		require.NoError(t, err)
		for i, exact := range values {
			f := doubles.(*array.Float64).Value(i)
			nearestOf(t, exact, f, [2]float64{math.Nextafter(f, math.Inf(-1)), math.Nextafter(f, math.Inf(1))}, math.Float64bits(f)&1 == 0)
			g := singles.(*array.Float32).Value(i)
			below, above := math.Nextafter32(g, float32(math.Inf(-1))), math.Nextafter32(g, float32(math.Inf(1)))
			nearestOf(t, exact, float64(g), [2]float64{float64(below), float64(above)}, math.Float32bits(g)&1 == 0)
		}
	}
}

// spec: join-83
func TestCastDatesAndTimestamps(t *testing.T) {
	micros := &arrow.TimestampType{Unit: arrow.Microsecond}
	zoned := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	nanos := &arrow.TimestampType{Unit: arrow.Nanosecond}
	date := arrow.FixedWidthTypes.Date32
	for _, c := range []struct {
		from, to   arrow.DataType
		text, want string // JSON; want is "" if the cast must fail
	}{
		{date, micros, `["1969-12-31", null, "2026-10-01"]`, `["1969-12-31 00:00:00", null, "2026-10-01 00:00:00"]`},
		{date, zoned, `["2026-10-01"]`, `["2026-10-01T00:00:00Z"]`},
		{date, nanos, `["2026-10-01"]`, `["2026-10-01 00:00:00"]`},
		{date, nanos, `["2500-01-01"]`, ""},
		{micros, date, `["1969-12-31 00:00:00", null]`, `["1969-12-31", null]`},
		{micros, date, `["1969-12-31 00:00:00.000001"]`, ""},
		{micros, date, `["1969-12-31 23:59:59"]`, ""},
		{micros, zoned, `["2026-10-01 12:00:00.5"]`, `["2026-10-01T12:00:00.5Z"]`},
		{micros, nanos, `["2026-10-01 12:00:00.000001"]`, `["2026-10-01 12:00:00.000001"]`},
		{micros, nanos, `["1500-01-01 00:00:00"]`, ""},
		{nanos, zoned, `["1969-12-31 23:59:59.000001"]`, `["1969-12-31T23:59:59.000001Z"]`},
		{nanos, micros, `["1969-12-31 23:59:59.000001001"]`, ""},
	} {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.from, strings.NewReader(c.text))
		require.NoError(t, err)
		require.True(t, batch.CanCast(c.from, c.to))
		got, err := batch.Cast(a, c.to, nil)
		if c.want == "" {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s to %s", c.text, c.to)
			continue
		}
		require.NoError(t, err)
		want, _, err := array.FromJSON(memory.DefaultAllocator, c.to, strings.NewReader(c.want))
		require.NoError(t, err)
		require.True(t, array.Equal(want, got), "%s is not %s", got, want)
	}
}

// TestCastLists casts the elements of visible rows only.
func TestCastLists(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	from, to := arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64)), arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Float32))
	require.True(t, batch.CanCast(from, to))
	whole, _, err := array.FromJSON(mem, from, strings.NewReader(`[[[16777217]], [[1, 2], null], null, [], [[], [null, 3]], [[16777217, 5]]]`))
	require.NoError(t, err)
	part := array.NewSlice(whole, 1, 5)
	got, err := batch.Cast(part, to, mem)
	require.NoError(t, err)
	require.Equal(t, []any{
		[]any{[]any{"1", "2"}, nil}, nil, []any{}, []any{[]any{}, []any{nil, "3"}},
	}, valuesOf(got))
	requireTidy(t, got.Data())
	_, err = batch.Cast(whole, to, mem)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	got.Release()
	part.Release()
	whole.Release()
}

// TestCastListsIgnoresItemsUnderNulls has an element under a null that cannot be cast.
func TestCastListsIgnoresItemsUnderNulls(t *testing.T) {
	items, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64, strings.NewReader(`[1, 16777217, 2, 3]`))
	require.NoError(t, err)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1, 2, 4}))
	from := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	a := array.MakeFromData(array.NewData(from, 3, []*memory.Buffer{memory.NewBufferBytes([]byte{0b101}), offsets}, []arrow.ArrayData{items.Data()}, 1, 0))
	got, err := batch.Cast(a, arrow.ListOf(arrow.PrimitiveTypes.Float32), nil)
	require.NoError(t, err)
	require.Equal(t, []any{[]any{"1"}, nil, []any{"2", "3"}}, valuesOf(got))
	cut, err := batch.Last(a, 1, nil)
	require.NoError(t, err)
	require.Equal(t, 2, cut.(*array.List).ListValues().Len())
}

func TestCastRefusesUnsupportedTypes(t *testing.T) {
	s := newSource(5)
	for _, c := range []struct{ from, to arrow.DataType }{
		{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64},
		{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String},
		{arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Boolean},
		{arrow.FixedWidthTypes.Date32, arrow.PrimitiveTypes.Int32},
		{arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Date32},
		{arrow.FixedWidthTypes.Time64us, arrow.FixedWidthTypes.Timestamp_us},
		{arrow.PrimitiveTypes.Int64, decimalType(2)},
		{arrow.PrimitiveTypes.Int64, arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{arrow.ListOf(arrow.PrimitiveTypes.Int64), arrow.PrimitiveTypes.Int64},
		{arrow.ListOf(arrow.BinaryTypes.String), arrow.ListOf(arrow.PrimitiveTypes.Int64)},
	} {
		require.False(t, batch.CanCast(c.from, c.to), "%s to %s", c.from, c.to)
		_, err := batch.Cast(s.array(c.from, 2, true), c.to, nil)
		require.Equal(t, fault.Internal, fault.KindOf(err))
	}
}
