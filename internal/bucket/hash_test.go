package bucket_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"

	"github.com/penstock/penstock/internal/bucket"
)

// The vectors of the Iceberg specification, Appendix B.
func TestSpecificationVectors(t *testing.T) {
	day := func(y int, m time.Month, d int) int64 {
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86_400
	}
	micros := func(s string) int64 {
		at, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		return at.UnixMicro()
	}
	id := uuid.MustParse("f79c3e09-677c-4bbd-a479-3f349cb785e7")
	for _, tc := range []struct {
		name      string
		got, want int32
	}{
		{"int and long 34", bucket.HashInt64(34), 2017239379},
		{"decimal 14.20", bucket.HashDecimal128(decimal128.FromI64(1420)), -500754589},
		{"date 2017-11-16", bucket.HashInt64(day(2017, 11, 16)), -653330422},
		{"time 22:31:08", bucket.HashInt64((22*3600 + 31*60 + 8) * 1_000_000), -662762989},
		{"timestamp", bucket.HashInt64(micros("2017-11-16T22:31:08Z")), -2047944441},
		{"timestamp with a microsecond", bucket.HashInt64(micros("2017-11-16T22:31:08.000001Z")), -1207196810},
		{"timestamptz", bucket.HashInt64(micros("2017-11-16T14:31:08-08:00")), -2047944441},
		{"string", bucket.HashString("iceberg"), 1210000089},
		{"uuid", bucket.HashBytes(id[:]), 1488055340},
		{"fixed and binary", bucket.HashBytes([]byte{0, 1, 2, 3}), -188683207},
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
	text, bytes := "a request id of thirty-two bytes", []byte{1, 2, 3}
	var sum int32
	allocs := testing.AllocsPerRun(100, func() {
		sum += bucket.HashInt64(7) + bucket.HashString(text) + bucket.HashBytes(bytes) +
			bucket.HashDecimal128(decimal128.FromI64(-5))
	})
	require.Zero(t, allocs)
}
