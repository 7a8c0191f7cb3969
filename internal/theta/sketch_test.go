package theta_test

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/theta"
)

func numbers(from, to int) *theta.Sketch {
	s := &theta.Sketch{}
	for i := from; i < to; i++ {
		s.AddUint64(uint64(i))
	}
	return s
}

func texts(of ...string) *theta.Sketch {
	s := &theta.Sketch{}
	for _, t := range of {
		s.AddBytes([]byte(t))
	}
	return s
}

// The hashes are those that the Python package datasketches 5 serializes for the same values.
func TestHashesAreThoseOfDataSketches(t *testing.T) {
	for _, c := range []struct {
		sketch *theta.Sketch
		bytes  string
		hashes int // where they begin
	}{
		{numbers(0, 0), "AQMDAAAezJM=", 8},
		{numbers(1, 2), "AQMDAAAazJMV+X3LvYahBQ==", 8},
		{numbers(0, 5), "AgMDAAAazJMFAAAAAAAAABX5fcu9hqEFQN4u4cnbPQjDl/wSgXCdHuVrYe7IgEQgukCzwdoGaV0=", 16},
		{texts("a"), "AQMDAAAazJMXwR1ShQcBew==", 8},
		{texts("", "x", "longer than sixteen bytes, by far"), "AgMDAAAazJMCAAAAAAAAABuer1ClTOkSOXFJ2YI+9mg=", 16},
	} {
		want, err := base64.StdEncoding.DecodeString(c.bytes)
		require.NoError(t, err)
		got := c.sketch.Bytes()
		require.Equal(t, want[c.hashes:], got[c.hashes:])
		require.Equal(t, want[:5], got[:5])
		require.Equal(t, want[6:8], got[6:8], "the seed's hash")
		n, exact := c.sketch.Estimate()
		require.True(t, exact)
		require.InDelta(t, float64(len(want)-c.hashes)/8, n, 0)
	}
}

func TestNumbersHashLikeTheirBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		v := rng.Uint64()
		long, short := theta.Sketch{}, theta.Sketch{}
		long.AddUint64(v)
		short.AddUint32(uint32(v))
		require.Equal(t, texts(string(binary.LittleEndian.AppendUint64(nil, v))).Bytes(), long.Bytes())
		require.Equal(t, texts(string(binary.LittleEndian.AppendUint32(nil, uint32(v)))).Bytes(), short.Bytes())
	}
}

func TestSketchesDependOnlyOnTheSetOfValues(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 << rng.IntN(17)
		values := make([]uint64, 0, 2*n)
		for i := range n {
			values = append(values, uint64(i), rng.Uint64N(uint64(n)))
		}
		whole, parts := numbers(0, n), make([]theta.Sketch, 1+rng.IntN(9))
		rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		for _, v := range values {
			parts[rng.IntN(len(parts))].AddUint64(v)
		}
		merged := theta.Sketch{}
		for i := range parts {
			read, err := theta.Read(parts[i].Bytes())
			require.NoError(t, err)
			merged.Merge(read)
		}
		require.Equal(t, whole.Bytes(), merged.Bytes())
		estimate, exact := merged.Estimate()
		require.Equal(t, n <= theta.Nominal, exact)
		if exact {
			require.InDelta(t, n, estimate, 0)
		}
		require.InEpsilon(t, n, estimate, 4/math.Sqrt(theta.Nominal))
	}
}

func TestReadRefusesWhatBytesDoesNotWrite(t *testing.T) {
	for _, s := range []*theta.Sketch{numbers(0, 0), numbers(0, 1), numbers(0, 100), numbers(0, 9000)} {
		good := s.Bytes()
		for i := range 24 * 8 {
			changed := append([]byte{}, good...)
			if i/8 >= len(changed) {
				break
			}
			changed[i/8] ^= 1 << (i % 8)
			read, err := theta.Read(changed)
			if err != nil {
				require.Equal(t, fault.Corrupt, fault.KindOf(err))
				continue
			}
			n, _ := read.Estimate()
			require.False(t, math.IsNaN(n) || n < 0)
		}
		for cut := range min(len(good), 40) {
			_, err := theta.Read(good[:cut])
			require.Error(t, err)
		}
	}
}

// BenchmarkRows adds the values of a file of 200,000 rows, and sorts the sketch.
func BenchmarkRows(b *testing.B) {
	const rows = 200_000
	for _, distinct := range []uint64{2, 100, 5000, rows} {
		b.Run(strconv.FormatUint(distinct, 10), func(b *testing.B) {
			for b.Loop() {
				s := &theta.Sketch{}
				for i := range uint64(rows) {
					s.AddUint64(i * 0x9e3779b97f4a7c15 % distinct)
				}
				s.Estimate()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
