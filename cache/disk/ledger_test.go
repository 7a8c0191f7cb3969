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

// ledgerModel is what a ledger must do, with a search of all chunks in place of a heap.
type ledgerModel struct {
	floor  float64
	uses   int
	chunks map[ChunkKey]*modelChunk
}

type modelChunk struct {
	bytes   int64 // whole blocks of 4 KiB, and one more
	cost    float64
	worth   float64
	used    int // of two with equal worth, the one used earlier is evicted
	readers int
	evicted bool
}

func (m *ledgerModel) use(c *modelChunk) {
	m.uses++
	c.worth, c.used = m.floor+c.cost/float64(c.bytes), m.uses
}

// least returns the chunk that is evicted next; false if all are being read.
func (m *ledgerModel) least() (least ChunkKey, found bool) {
	for key, c := range m.chunks {
		if c.readers > 0 || c.evicted {
			continue
		}
		if l := m.chunks[least]; !found || c.worth < l.worth || c.worth == l.worth && c.used < l.used {
			least, found = key, true
		}
	}
	return least, found
}

// evict removes a chunk, whose bytes count until its last reader ends.
func (m *ledgerModel) evict(key ChunkKey) {
	m.chunks[key].evicted = true
	m.drop(key)
}

func (m *ledgerModel) drop(key ChunkKey) {
	if c := m.chunks[key]; c.evicted && c.readers == 0 {
		delete(m.chunks, key)
	}
}

func (m *ledgerModel) bytes() int64 {
	sum := int64(0)
	for _, c := range m.chunks {
		sum += c.bytes
	}
	return sum
}

// TestLedgersAgreeWithAModel compares a ledger with a model after each of many calls: which chunks
// can be opened, which one is evicted, and how many bytes are used.
//
// spec: disk-2
func TestLedgersAgreeWithAModel(t *testing.T) {
	t.Parallel()
	random, l := rand.New(rand.NewPCG(1, 2)), newLedger(1<<30)
	m := ledgerModel{chunks: map[ChunkKey]*modelChunk{}}
	var reading []*chunkFile
	seen := map[string]int{}
	for n := range 5_000 {
		switch random.IntN(4) {
		case 0:
			size, cost := int64(random.IntN(50_000)), uint32(random.IntN(9))
			c := &modelChunk{bytes: (size+4095)/4096*4096 + 4096, cost: float64(cost)}
			m.chunks[l.addChunk(n, size, cost)] = c
			m.use(c)
		case 1:
			key := numbered(max(0, n-random.IntN(60))).Key()
			c := m.chunks[key]
			f := l.open(key)
			require.Equal(t, c != nil && !c.evicted, f != nil, "chunk %d can be opened", n)
			if f != nil {
				c.readers++
				reading = append(reading, f)
				seen["opened"]++
			}
		case 2:
			if len(reading) == 0 {
				continue
			}
			f := reading[0]
			reading = reading[1:]
			c := m.chunks[f.key]
			c.readers--
			if random.IntN(4) == 0 {
				l.closeUnread(f)
				seen["closed unread"]++
			} else {
				l.close(f)
				if c.readers == 0 && !c.evicted {
					m.use(c)
				}
			}
			m.drop(f.key)
		case 3:
			var f *chunkFile
			if len(reading) > 0 && random.IntN(8) == 0 {
				if f = reading[0]; !l.leave(f) {
					continue
				}
				seen["evicted while it was read"]++
			} else {
				want, found := m.least()
				f = l.least()
				require.Equal(t, found, f != nil)
				if !found {
					continue
				}
				require.Equal(t, want, f.key, "the chunk that is worth least")
				m.floor = m.chunks[want].worth
				seen["evicted"]++
			}
			require.Nil(t, l.open(f.key), "a chunk is not opened while its file is deleted")
			require.Equal(t, m.bytes(), l.used)
			m.evict(f.key)
			l.left(f, true)
		}
		require.Equal(t, m.bytes(), l.used)
	}
	for _, what := range []string{"opened", "closed unread", "evicted", "evicted while it was read"} {
		require.Positive(t, seen[what], what)
	}
}
