package function

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// generator makes random values of a type; nil stands for null.
type generator struct {
	dt    arrow.DataType
	value func(r *rand.Rand) any
	// literal is the SQL text if all rows have the same value.
	literal string
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func oftenNull(value func(r *rand.Rand) any) func(r *rand.Rand) any {
	return func(r *rand.Rand) any {
		if r.IntN(8) == 0 {
			return nil
		}
		return value(r)
	}
}

func ints32() generator {
	return generator{dt: arrow.PrimitiveTypes.Int32, value: oftenNull(func(r *rand.Rand) any {
		switch r.IntN(4) {
		case 0:
			return one[int32](r, 0, 1, -1, math.MaxInt32, math.MinInt32, math.MaxInt32-1)
		case 1:
			return int32(r.Uint32())
		default:
			return int32(r.IntN(20) - 10)
		}
	})}
}

func ints64() generator {
	return generator{dt: arrow.PrimitiveTypes.Int64, value: oftenNull(func(r *rand.Rand) any {
		switch r.IntN(4) {
		case 0:
			return one[int64](r, 0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt32, 1<<53+1)
		case 1:
			return int64(r.Uint64())
		default:
			return int64(r.IntN(20) - 10)
		}
	})}
}

func anyFloat(r *rand.Rand) float64 {
	switch r.IntN(6) {
	case 0:
		return one(r, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 0.5, -0.5, 2.5, 1<<62)
	case 1:
		return math.Float64frombits(r.Uint64())
	case 2:
		return float64(r.IntN(2000)-1000) / 4
	case 3:
		return float64(r.IntN(20) - 10)
	default:
		return r.NormFloat64() * 10
	}
}

func floats64() generator {
	return generator{dt: arrow.PrimitiveTypes.Float64, value: oftenNull(func(r *rand.Rand) any { return anyFloat(r) })}
}

func floats32() generator {
	return generator{dt: arrow.PrimitiveTypes.Float32, value: oftenNull(func(r *rand.Rand) any { return float32(anyFloat(r)) })}
}

func bools() generator {
	return generator{dt: arrow.FixedWidthTypes.Boolean, value: oftenNull(func(r *rand.Rand) any { return r.IntN(2) == 0 })}
}

// anyText makes short texts of few characters, so that parts of them match, and some with other characters.
func anyText(r *rand.Rand) string {
	letters := []string{"a", "b", "A", ",", " ", "é", "Ж", "日", "👍", "_", "x"}
	var out strings.Builder
	for range r.IntN(8) {
		out.WriteString(letters[min(r.IntN(len(letters)), r.IntN(len(letters)))])
	}
	return out.String()
}

func strs() generator {
	return generator{dt: arrow.BinaryTypes.String, value: oftenNull(func(r *rand.Rand) any { return anyText(r) })}
}

// letters makes texts of characters of many scripts.
func letters() generator {
	ranges := [][2]rune{{0x20, 0x590}, {0x10a0, 0x1100}, {0x13a0, 0x1400}, {0x1c80, 0x1cc0}, {0x1d79, 0x2190}, {0x2c00, 0x2d30}, {0xa640, 0xa7ff}, {0xab30, 0xabc0}, {0xfb00, 0xfb20}, {0xff21, 0xff5b}, {0x10400, 0x10600}, {0x1e900, 0x1e944}}
	return generator{dt: arrow.BinaryTypes.String, value: oftenNull(func(r *rand.Rand) any {
		var out strings.Builder
		for range r.IntN(4) {
			of := ranges[r.IntN(len(ranges))]
			out.WriteRune(of[0] + r.Int32N(of[1]-of[0]))
		}
		return out.String()
	})}
}

func binaries() generator {
	return generator{dt: arrow.BinaryTypes.Binary, value: oftenNull(func(r *rand.Rand) any { return []byte(anyText(r)) })}
}

func decimals() generator {
	return generator{dt: &arrow.Decimal128Type{Precision: 20, Scale: 2}, value: oftenNull(func(r *rand.Rand) any { return decimal128.FromI64(int64(r.IntN(2000) - 1000)) })}
}

func dates() generator {
	return generator{dt: arrow.FixedWidthTypes.Date32, value: oftenNull(func(r *rand.Rand) any {
		switch r.IntN(4) {
		case 0: // 1600-02-29, 1900-02-28, 1970-01-01, 1969-12-31, 2000-02-29, 2024-12-31, 0001-01-01, 9999-12-31
			return one[arrow.Date32](r, -135081, -25509, 0, -1, 11016, 20088, -719162, 2932896)
		case 1:
			return arrow.Date32(r.IntN(2932896+719162) - 719162)
		default:
			return arrow.Date32(r.IntN(20000) - 5000)
		}
	})}
}

const microsPerDay = 86_400_000_000

func anyMicros(r *rand.Rand) int64 {
	switch r.IntN(4) {
	case 0:
		return one[int64](r, 0, -1, 1, -microsPerDay, microsPerDay-1, 951_782_400_000_000, 951_868_799_999_999, -500_000)
	case 1:
		return r.Int64N(250_000_000_000_000_000) - 60_000_000_000_000_000
	default:
		return r.Int64N(2_000_000_000_000_000) - 200_000_000_000_000
	}
}

func timestamps(dt *arrow.TimestampType) generator {
	return generator{dt: dt, value: oftenNull(func(r *rand.Rand) any {
		micros := anyMicros(r)
		if dt.Unit == arrow.Nanosecond {
			return arrow.Timestamp(micros % 9_000_000_000_000_000 * 1000) // DuckDB rounds to microseconds
		}
		return arrow.Timestamp(micros)
	})}
}

func listsOfRandom(of generator) generator {
	return generator{dt: arrow.ListOf(of.dt), value: oftenNull(func(r *rand.Rand) any {
		out := make([]any, r.IntN(6))
		for i := range out {
			out[i] = of.value(r)
		}
		return out
	})}
}

func literal(dt arrow.DataType, value any, sql string) generator {
	return generator{dt: dt, value: func(*rand.Rand) any { return value }, literal: sql}
}

func textLiteral(text string) generator {
	return literal(arrow.BinaryTypes.String, text, "'"+strings.ReplaceAll(text, "'", "''")+"'")
}

// column makes an array of values in Go's heap.
func column(t *testing.T, dt arrow.DataType, values []any) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	for _, v := range values {
		add(t, b, v)
	}
	return b.NewArray()
}

func add(t *testing.T, b array.Builder, value any) {
	t.Helper()
	if value == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(value.(int32))
	case *array.Int64Builder:
		b.Append(value.(int64))
	case *array.Float32Builder:
		b.Append(value.(float32))
	case *array.Float64Builder:
		b.Append(value.(float64))
	case *array.BooleanBuilder:
		b.Append(value.(bool))
	case *array.StringBuilder:
		b.Append(value.(string))
	case *array.BinaryBuilder:
		b.Append(value.([]byte))
	case *array.Decimal128Builder:
		b.Append(value.(decimal128.Num))
	case *array.Date32Builder:
		b.Append(value.(arrow.Date32))
	case *array.Time64Builder:
		b.Append(value.(arrow.Time64))
	case *array.TimestampBuilder:
		b.Append(value.(arrow.Timestamp))
	case *array.ListBuilder:
		b.Append(true)
		for _, item := range value.([]any) {
			add(t, b.ValueBuilder(), item)
		}
	default:
		require.Fail(t, "no values", b.Type().String())
	}
}

// counting counts the bytes of all allocations, whether or not they were freed.
type counting struct {
	memory.Allocator
	bytes int64
}

func (c *counting) Allocate(size int) []byte {
	c.bytes += int64(size)
	return c.Allocator.Allocate(size)
}

func (c *counting) Reallocate(size int, b []byte) []byte {
	c.bytes += int64(size)
	return c.Allocator.Reallocate(size, b)
}

// checked returns an allocator whose memory must be freed when the test ends.
func checked(t *testing.T) *memory.CheckedAllocator {
	t.Helper()
	mem := memory.NewCheckedAllocator(batch.Default())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}
