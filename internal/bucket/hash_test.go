package bucket_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"

	"github.com/penstock/penstock/internal/bucket"
)

// TestSpecificationVectors has the test vectors of the Iceberg specification,
// Appendix B, for values of eight bytes; TestSpecificationVectorsOfArrays has the
// others.
func TestSpecificationVectors(t *testing.T) {
	day := func(y int, m time.Month, d int) int64 {
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86_400
	}
	micros := func(s string) int64 {
		at, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		return at.UnixMicro()
	}
	for _, tc := range []struct {
		name      string
		got, want int32
	}{
		{"int and long 34", bucket.HashInt64(34), 2017239379},
		{"date 2017-11-16", bucket.HashInt64(day(2017, 11, 16)), -653330422},
		{"time 22:31:08", bucket.HashInt64((22*3600 + 31*60 + 8) * 1_000_000), -662762989},
		{"timestamp", bucket.HashInt64(micros("2017-11-16T22:31:08Z")), -2047944441},
		{"timestamp with a microsecond", bucket.HashInt64(micros("2017-11-16T22:31:08.000001Z")), -1207196810},
		{"timestamptz", bucket.HashInt64(micros("2017-11-16T14:31:08-08:00")), -2047944441},
	} {
		require.Equal(t, tc.want, tc.got, tc.name)
	}
}

func TestHashInt64IsMurmur3OfEightBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []int64{0, 1, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	for range 10_000 {
		values = append(values, int64(rng.Uint64()>>rng.IntN(64)))
	}
	for _, v := range values {
		var b [8]byte
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		require.Equal(t, int32(murmur3.Sum32(b[:])), bucket.HashInt64(v), "of %d", v)
	}
}

func TestHashesAllocateNothing(t *testing.T) {
	for dt, json := range map[arrow.DataType]string{
		arrow.PrimitiveTypes.Int64:                     `[7, null, -1]`,
		arrow.BinaryTypes.String:                       `["a request id of thirty-two bytes", null, ""]`,
		arrow.BinaryTypes.Binary:                       `["AQID", null, "AA=="]`,
		&arrow.Decimal128Type{Precision: 38, Scale: 2}: `["-0.05", null, "123456789012345678901234567890.00"]`,
	} {
		values, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(json))
		require.NoError(t, err)
		dst := make([]int32, 0, values.Len())
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = bucket.Hashes(dst, values) }), dt)
	}
}
