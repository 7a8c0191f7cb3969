package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// taken counts the bytes that buffers use of a pool.
type taken struct {
	*batch.Pool
	bytes int64
}

func (t *taken) Allocate(n int) []byte {
	t.bytes += batch.AllocatedSize(t.Pool, int64(n))
	return t.Pool.Allocate(n)
}

// requireSized checks that Size is at least the bytes that Gather allocates, or equal
// if exact is set.
func requireSized(t *testing.T, dt arrow.DataType, segments []batch.Segment, exact bool) {
	t.Helper()
	mem := &taken{Pool: &batch.Pool{}}
	g := batch.NewGatherer(mem)
	defer g.Release()
	size, err := g.Size(dt, segments)
	require.NoError(t, err)
	require.Zero(t, mem.bytes, "nothing is gathered yet")
	got, err := g.Gather(dt, segments)
	require.NoError(t, err)
	defer got.Release()
	require.GreaterOrEqual(t, size, mem.bytes, "%s", dt)
	if exact {
		require.Equal(t, mem.bytes, size, "%s", dt)
	}
}

func TestSizeIsAnUpperBoundOfGather(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		s := newSource(seed)
		dt := s.dataType(3)
		segments, _ := s.segments(dt)
		requireSized(t, dt, segments, false)
		values := s.array(dt, 200, false)
		requireSized(t, dt, []batch.Segment{{Values: values, Indices: s.indices(200)}, {Values: values, From: 3, Rows: 190}}, true)
	}
}

func TestSizeFailsAsGatherDoes(t *testing.T) {
	t.Parallel()
	g := batch.NewGatherer(nil)
	defer g.Release()
	_, err := g.Size(arrow.PrimitiveTypes.Int64, []batch.Segment{{Values: int64s(1, 2), Indices: []int32{2}}})
	require.ErrorContains(t, err, "rows 2 to 2 are outside of an array of 2 rows")
}

func TestRoomIsAnUpperBound(t *testing.T) {
	t.Parallel()
	pool := &batch.Pool{}
	for _, n := range []int64{0, 1, 63, 64, 256, 257, 1000, 4096, 4097, 1 << 20, 1<<20 + 1, 1 << 26, 1<<26 + 1} {
		b := memory.NewResizableBuffer(pool)
		b.Resize(int(n))
		require.LessOrEqual(t, int64(cap(b.Buf())), batch.AllocatedSize(pool, n), "%d", n)
		require.LessOrEqual(t, batch.AllocatedSize(pool, n), n+n/4+320, "%d", n)
		require.Equal(t, batch.AllocatedSize(pool, n), batch.AllocatedSize(batch.NewPoison(pool), n))
		require.Equal(t, n, batch.AllocatedSize(memory.DefaultAllocator, n))
		b.Release()
	}
}
