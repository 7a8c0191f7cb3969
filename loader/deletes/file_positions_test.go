package deletes

import (
	"errors"
	"testing"

	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"
)

// Positions are encoded as iceberg-go decodes them, also those above 32 bits, and come in order.
//
// spec: write-40
func TestFilePositions(t *testing.T) {
	t.Parallel()
	want := []int64{0, 5, 6, 7, 1 << 20, 1<<32 - 1, 1 << 32, 1<<33 + 4}
	for i := range int64(70_000) {
		want = append(want, 1<<34+i)
	}
	one, other := &bitmap{}, &bitmap{}
	one.add(want[:6])
	other.add(want[4:])
	f := &FilePositions{set: &bitmap{}}
	f.set.union(one)
	f.set.union(other)
	require.Equal(t, int64(6), one.count(), "it is not changed")
	require.Equal(t, int64(len(want)), f.Count())
	var got []int64
	require.NoError(t, f.Each(make([]int64, 0, 1000), func(run []int64) error {
		got = append(got, run...)
		return nil
	}))
	require.Equal(t, want, got)
	failed := errors.New("full")
	for _, length := range []int{1000, 1 << 20} {
		require.ErrorIs(t, f.Each(make([]int64, 0, length), func([]int64) error { return failed }), failed)
	}
	bound := f.Bytes()
	blob, err := f.Vector()
	require.NoError(t, err)
	require.LessOrEqual(t, int64(len(blob)), bound)
	read, err := dv.DeserializeDV(blob, int64(len(want)))
	require.NoError(t, err)
	got = got[:0]
	for p := range read.Positions() {
		got = append(got, int64(p)) //nolint:gosec // small
	}
	require.Equal(t, want, got)
	own, err := decodeVector(blob)
	require.NoError(t, err)
	require.Equal(t, int64(len(want)), own.count())
}
