package deletes

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"
)

// TestBitmaps compares sets with maps, both as built and as stored by another library.
func TestBitmaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		base, span := []int64{0, 65_530, 1<<32 - 40, 1 << 33}[r.IntN(4)], int64(1+r.IntN(200_000))
		want := map[int64]bool{}
		set, other := &bitmap{}, dv.NewRoaringPositionBitmap()
		for range r.IntN(400) {
			var positions []int64
			from := base + r.Int64N(span)
			for i := range int64(r.IntN(30)) {
				positions = append(positions, from+i*int64(1+seed%2))
			}
			for _, p := range positions {
				want[p] = true
				other.Set(uint64(p))
			}
			set.add(positions)
		}
		stored, err := dv.SerializeDV(other)
		require.NoError(t, err)
		decoded, err := decodeVector(stored)
		require.NoError(t, err)
		for _, b := range []*bitmap{set, decoded} {
			require.EqualValues(t, len(want), b.count())
			highest := int64(-1)
			for p := range want {
				highest = max(highest, p)
			}
			require.Equal(t, highest, b.highest())
			for range 20 {
				first, n := max(0, base-100+r.Int64N(span+200)), int64(1+r.IntN(3_000))
				bits := make([]uint64, (n+wordBits-1)/wordBits)
				b.mark(bits, first, n)
				for i := range n {
					require.Equal(t, want[first+i], bits[i/wordBits]>>(i%wordBits)&1 == 1, "seed %d, position %d", seed, first+i)
				}
			}
		}
	}
}

// FuzzReadBitmap checks that reading any bytes ends, with an error or a set, and allocates what is charged for them, beside one
// bitmap of the library.
func FuzzReadBitmap(f *testing.F) {
	set := dv.NewRoaringPositionBitmap()
	set.SetRange(3, 90_000)
	set.Set(1 << 40)
	stored, err := dv.SerializeDV(set)
	require.NoError(f, err)
	f.Add(stored[8 : len(stored)-4])
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3a, 0x30, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, stored []byte) {
		const slack = 4 << 20
		before := allocated()
		b, err := readBitmap(stored)
		if took := allocated() - before; took > slack+perBlobBytes*int64(len(stored)) {
			t.Fatalf("%d bytes were allocated for %d: %v", took, len(stored), err)
		}
		if err != nil {
			return
		}
		bits := make([]uint64, 4)
		b.mark(bits, 10, 256)
		if b.count() > 0 && b.highest() < 0 {
			t.Fatal("a set of positions without a highest one")
		}
	})
}

// allocated returns the bytes that were allocated so far.
func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestHostileBitmaps checks that the sizes that a bitmap claims are not trusted.
func TestHostileBitmaps(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string][]byte{
		"nothing":            nil,
		"many parts":         binary.LittleEndian.AppendUint64(nil, 1<<60),
		"a negative part":    slices.Concat(binary.LittleEndian.AppendUint64(nil, 1), []byte{0, 0, 0, 0x80}, []byte{0x3a, 0x30, 0, 0, 0, 0, 0, 0}),
		"many containers":    slices.Concat(binary.LittleEndian.AppendUint64(nil, 1), []byte{0, 0, 0, 0}, []byte{0x3a, 0x30, 0, 0, 0, 0, 1, 0}, bytes.Repeat([]byte{1}, 30)),
		"bytes behind":       slices.Concat(binary.LittleEndian.AppendUint64(nil, 1), []byte{0, 0, 0, 0}, []byte{0x3a, 0x30, 0, 0, 0, 0, 0, 0}, []byte{1}),
		"parts out of order": slices.Concat(binary.LittleEndian.AppendUint64(nil, 2), []byte{1, 0, 0, 0}, []byte{0x3a, 0x30, 0, 0, 0, 0, 0, 0}, []byte{1, 0, 0, 0}, []byte{0x3a, 0x30, 0, 0, 0, 0, 0, 0}),
	} {
		_, err := readBitmap(stored)
		require.Error(t, err, name)
	}
}
