package disk

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

func newNumbers(buffer *memory.Buffer, n int) arrow.Array {
	d := array.NewData(arrow.PrimitiveTypes.Int64, n, []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// addChunk adds a chunk to a ledger, as a tier does.
func (l *ledger) addChunk(n int, size int64, cost uint32) ChunkKey {
	l.used += footprint(size)
	key := numbered(n).Key()
	l.add(key, size, cost)
	return key
}

// evictOne evicts the chunk that is worth least.
func (l *ledger) evictOne() ChunkKey {
	f := l.least()
	l.left(f, true)
	return f.key
}

// TestCheapChunksAreEvictedFirst: by cost per byte, and of equal ones the least recently used.
func TestCheapChunksAreEvictedFirst(t *testing.T) {
	t.Parallel()
	l := newLedger(1 << 30)
	dear := l.addChunk(0, 100_000, 1_000)
	large := l.addChunk(1, 1_000_000, 1_000)
	cheap := l.addChunk(2, 100_000, 1)
	old := l.addChunk(3, 100_000, 500)
	young := l.addChunk(4, 100_000, 500)
	again := l.open(old)
	l.close(again)
	var order []ChunkKey
	for range 5 {
		order = append(order, l.evictOne())
	}
	require.Equal(t, []ChunkKey{cheap, large, young, old, dear}, order)
	require.Nil(t, l.least())
	require.Zero(t, l.used)
}

// TestUnreadChunksLoseWorth: a chunk that costs much is evicted at last if it is not read, and others are.
//
// spec: disk-2
func TestUnreadChunksLoseWorth(t *testing.T) {
	t.Parallel()
	l := newLedger(1 << 30)
	unread := l.addChunk(0, 10_000, 10)
	for n := 1; ; n++ {
		require.Less(t, n, 100)
		l.addChunk(n, 10_000, 1)
		if l.evictOne() == unread {
			return
		}
	}
}

// TestLedgersAddUp: after any calls, the bytes are those of the files that are there or being read.
func TestLedgersAddUp(t *testing.T) {
	t.Parallel()
	random, l := rand.New(rand.NewPCG(1, 2)), newLedger(1<<30)
	var reading []*chunkFile
	for n := range 5_000 {
		switch random.IntN(4) {
		case 0:
			l.addChunk(n, int64(random.IntN(50_000)), uint32(random.IntN(9)))
		case 1:
			if f := l.open(numbered(random.IntN(n + 1)).Key()); f != nil {
				reading = append(reading, f)
			}
		case 2:
			if len(reading) > 0 {
				l.close(reading[0])
				reading = reading[1:]
			}
		case 3:
			if f := l.least(); f != nil {
				require.NotContains(t, reading, f, "what is read is not evicted")
				l.left(f, true)
			} else if len(reading) > 0 && l.leave(reading[0]) {
				l.left(reading[0], true)
			}
		}
		counted := map[*chunkFile]bool{}
		for _, f := range reading {
			counted[f] = true
		}
		for _, f := range l.files {
			counted[f] = true
		}
		var sum int64
		for f := range counted {
			sum += footprint(f.size)
		}
		require.Equal(t, sum, l.used)
	}
}
