package batch_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/invariant"
)

func TestPoolAllocates(t *testing.T) {
	p := &batch.Pool{}
	for _, size := range []int{0, 1, 63, 64, 65, 127, 128, 4097, 1 << 20, 1<<20 + 1, 1 << 26, 1<<26 + 1} {
		b := p.Allocate(size)
		require.Len(t, b, size)
		if size > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64, "alignment of %d bytes", size)
		}
		p.Free(b)
	}
}

func TestPoolReallocates(t *testing.T) {
	p, rng := &batch.Pool{}, rand.New(rand.NewPCG(1, 2))
	b, want := []byte{}, []byte{}
	for range 300 {
		size := 1 << rng.IntN(18)
		size += rng.IntN(size)
		kept := min(size, len(want))
		b = p.Reallocate(size, b)
		require.Len(t, b, size)
		require.Equal(t, want[:kept], b[:kept])
		require.LessOrEqual(t, cap(b), max(4*size, 256), "a shrunken buffer gives memory back")
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want = bytes.Clone(b)
	}
}

// TestPoolReusesMemoryOfTheNextClass: if there is none of the class itself.
func TestPoolReusesMemoryOfTheNextClass(t *testing.T) {
	p := &batch.Pool{}
	freed := p.Allocate(1152)
	p.Free(freed)
	require.NotSame(t, &freed[0], &p.Allocate(960)[0], "two classes lower")
	again := p.Allocate(1000)
	require.Same(t, &freed[0], &again[0])
	require.Equal(t, 1152, cap(again), "the memory keeps its class")
	p.Free(again)
	require.Same(t, &freed[0], &p.Allocate(1100)[0])
	for size := 256; size <= 1<<20; size += size/17 + 1 {
		require.LessOrEqual(t, cap((&batch.Pool{}).Allocate(size)), size+size/8, "at most an eighth of new memory is unused")
	}
}

func TestPoolIgnoresForeignMemory(t *testing.T) {
	p := &batch.Pool{}
	foreign := make([]byte, 200)
	for _, b := range [][]byte{nil, foreign, foreign[1:129:129], foreign[:100:100], {}} {
		p.Free(b)
	}
	b := p.Allocate(128)
	require.NotSame(t, &foreign[1], &b[0])
	require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%64)
}

// TestPoolNeverSharesMemory allocates and frees in several goroutines.
func TestPoolNeverSharesMemory(t *testing.T) {
	p := &batch.Pool{}
	var group sync.WaitGroup
	for id := range byte(4) {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(id), 1))
			held := [][]byte{}
			for range 500 {
				b := p.Allocate(1 + rng.IntN(4096))
				for i := range b {
					b[i] = id
				}
				held = append(held, b)
				if len(held) > 8 {
					i := rng.IntN(len(held))
					if bytes.Count(held[i], []byte{id}) != len(held[i]) {
						t.Error("memory was handed out twice")
					}
					p.Free(held[i])
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
				}
			}
		})
	}
	group.Wait()
}

func TestPoison(t *testing.T) {
	p := batch.NewPoison(memory.NewGoAllocator())
	b := p.Allocate(8)
	require.Equal(t, []byte("\x24\xdb\x24\xdb\x24\xdb\x24\xdb"), b, "new memory is poisoned")
	copy(b, "penstock")
	c := p.Reallocate(4, b)
	require.Equal(t, "pens", string(c))
	require.Equal(t, []byte("\x24\xdb\x24\xdb\x24\xdb\x24\xdb"), b, "the old memory is poisoned")
	p.Free(c)
	require.Equal(t, []byte("\x24\xdb\x24\xdb"), c, "freed memory is poisoned")
}

// TestPoisonExposesUseAfterRelease keeps a string past Release, which the garbage
// collector would hide.
func TestPoisonExposesUseAfterRelease(t *testing.T) {
	b := array.NewStringBuilder(batch.NewPoison(&batch.Pool{}))
	b.Append("kept too long")
	a := b.NewStringArray()
	b.Release()
	kept := a.Value(0)
	a.Release()
	require.NotEqual(t, "kept too long", kept)
}

func TestNewAllocator(t *testing.T) {
	_, poisons := batch.NewAllocator().(*batch.Poison)
	require.Equal(t, invariant.On, poisons)
}

// TestPoolKeepsWithinItsLimit frees much more than the pool keeps, in sizes of
// every class, largest first, and counts the memory that it reuses.
func TestPoolKeepsWithinItsLimit(t *testing.T) {
	p := &batch.Pool{}
	var sizes []int
	for size := 1; size <= 64<<20; size += size/5 + 1 {
		sizes = append(sizes, size)
	}
	held := map[*byte]int{}
	for _, size := range slices.Backward(sizes) {
		b := p.Allocate(size)
		require.GreaterOrEqual(t, cap(b), size)
		require.LessOrEqual(t, cap(b), max(256, size+size/4), "little memory is unused")
		held[&b[:1][0]] = cap(b)
		p.Free(b)
	}
	again, kept := 0, 0
	for _, size := range sizes {
		b := p.Allocate(size)
		if room, ok := held[&b[:1][0]]; ok {
			again++
			kept += room
		}
	}
	require.Positive(t, again)
	require.LessOrEqual(t, kept, batch.MaxFree)
}

// again counts the sizes for which a pool reuses memory of had.
func again(p memory.Allocator, had map[*byte]bool, sizes ...int) (count int) {
	for _, size := range sizes {
		if had[&p.Allocate(size)[:1][0]] {
			count++
		}
	}
	return count
}

// freed allocates and frees memory of the given sizes, and returns its addresses.
func freed(p memory.Allocator, sizes ...int) map[*byte]bool {
	held, had := make([][]byte, len(sizes)), map[*byte]bool{}
	for i, size := range sizes {
		held[i] = p.Allocate(size)
		had[&held[i][0]] = true
	}
	for _, b := range held {
		p.Free(b)
	}
	return had
}

// TestTrimDropsIdleMemory: a Trim keeps exactly the memory that was used since the
// previous one.
func TestTrimDropsIdleMemory(t *testing.T) {
	p := batch.NewAllocator()
	had := freed(p, 1000, 1000, 1000, 1000, 70_000)
	require.True(t, p.Trim(), "memory was used")
	require.Equal(t, 2, again(p, had, 1000, 70_000), "the first Trim keeps all memory used before")

	p = batch.NewAllocator()
	had = freed(p, 1000, 1000, 1000, 1000, 70_000)
	p.Trim()
	b, c := p.Allocate(1000), p.Allocate(1000)
	p.Free(b)
	p.Free(c)
	require.True(t, p.Trim())
	require.Equal(t, 2, again(p, had, 1000, 1000, 1000, 1000, 70_000), "at most two blocks were in use at once")

	p = batch.NewAllocator()
	had = freed(p, 1000, 70_000, 1<<20)
	p.Trim()
	require.False(t, p.Trim(), "the pool was not used")
	require.False(t, p.Trim())
	require.Zero(t, again(p, had, 1000, 70_000, 1<<20))
}

// TestBoundedPoolKeepsLess: also of memory that a Trim has counted as idle.
func TestBoundedPoolKeepsLess(t *testing.T) {
	p := batch.NewBoundedAllocator(1 << 20)
	sizes := slices.Repeat([]int{256 << 10}, 8)
	had := freed(p, sizes...)
	p.Trim()
	for start := range freed(p, sizes...) {
		had[start] = true
	}
	p.Trim()
	require.LessOrEqual(t, again(p, had, sizes...), 4)
}

// TestPoolNeverSharesMemoryDuringTrim trims a pool while it is in use.
func TestPoolNeverSharesMemoryDuringTrim(t *testing.T) {
	p := &batch.Pool{}
	var group sync.WaitGroup
	for id := range byte(4) {
		group.Go(func() {
			for range 300 {
				b, c := p.Allocate(300), p.Allocate(3000)
				for i := range b {
					b[i], c[i] = id, id
				}
				p.Trim()
				if bytes.Count(b, []byte{id}) != len(b) || bytes.Count(c[:300], []byte{id}) != 300 {
					t.Error("memory was handed out twice")
				}
				p.Free(c)
				p.Free(b)
			}
		})
	}
	group.Wait()
}
