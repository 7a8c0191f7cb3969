package parquet

import (
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// decoderAllocator is the library's allocator. It knows which buffers the library holds
// and frees those that the library forgets: its delta decoders never free theirs, and a
// decoder that panics frees nothing. Buffers that were handed out in a batch belong to
// the batch.
//
// Freeing a buffer that is no longer held does nothing, so each buffer is freed once. It
// is safe for concurrent use.
//
// Buffers come out of the open batch's trackedAllocator. Those that the library still
// holds when the batch is finished are kept: they are charged to the reader until a later
// batch hands them out, and to that batch from then on.
type decoderAllocator struct {
	under memory.Allocator

	mu    sync.Mutex
	batch *trackedAllocator // of the open batch
	held  map[*byte]heldBuffer
	kept  int64 // bytes of the kept buffers
}

// heldBuffer is a buffer of the library or of a batch.
type heldBuffer struct {
	buffer    []byte
	batch     *trackedAllocator // nil: kept
	handedOut bool
}

func newDecoderAllocator(under memory.Allocator) *decoderAllocator {
	return &decoderAllocator{under: under, held: map[*byte]heldBuffer{}}
}

// setBatch sets the allocator of the buffers allocated from now on.
func (t *decoderAllocator) setBatch(m *trackedAllocator) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.batch = m
}

// keep moves the buffers that the library still holds from a finished batch to the
// reader. It returns their bytes, and those of all kept buffers.
func (t *decoderAllocator) keep(m *trackedAllocator) (moved, kept int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first, h := range t.held {
		if h.batch == m && !h.handedOut {
			h.batch = nil
			t.held[first] = h
			moved += int64(len(h.buffer))
		}
	}
	t.kept += moved
	return moved, t.kept
}

func (t *decoderAllocator) Allocate(size int) []byte {
	t.mu.Lock()
	m := t.batch
	t.mu.Unlock()
	m.take(int64(size))
	b := t.under.Allocate(size)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.track(b, heldBuffer{batch: m})
	return b
}

func (t *decoderAllocator) Reallocate(size int, b []byte) []byte {
	t.mu.Lock()
	m := t.batch
	was, held := t.held[unsafe.SliceData(b)]
	t.mu.Unlock()
	if !held {
		out := t.Allocate(size)
		copy(out, b)
		return out
	}
	before, after := int64(size), int64(len(was.buffer))
	if was.batch == m {
		before, after = reallocated(size, was.buffer)
	}
	m.take(before)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, unsafe.SliceData(b))
	out := t.under.Reallocate(size, b)
	t.track(out, heldBuffer{batch: m, handedOut: was.handedOut})
	t.released(was.batch, after)
	return out
}

func (t *decoderAllocator) Free(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, held := t.held[unsafe.SliceData(b)]; held {
		t.release(h)
	}
}

func (t *decoderAllocator) release(h heldBuffer) {
	size := int64(len(h.buffer))
	delete(t.held, unsafe.SliceData(h.buffer))
	t.under.Free(h.buffer)
	t.released(h.batch, size)
}

// released subtracts freed bytes from those of a batch, or from the kept ones.
func (t *decoderAllocator) released(from *trackedAllocator, n int64) {
	if from == nil {
		t.kept -= n
	} else {
		from.release(n)
	}
}

func (t *decoderAllocator) track(b []byte, h heldBuffer) {
	if cap(b) > 0 {
		h.buffer = b
		t.held[unsafe.SliceData(b)] = h
	}
}

// handOut moves the buffers of an array from the library to the open batch.
func (t *decoderAllocator) handOut(data arrow.ArrayData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markOut(data)
}

func (t *decoderAllocator) markOut(data arrow.ArrayData) {
	for _, b := range data.Buffers() {
		if b == nil {
			continue
		}
		for b.Parent() != nil {
			b = b.Parent()
		}
		first := unsafe.SliceData(b.Buf())
		if h, held := t.held[first]; held {
			if h.batch == nil {
				t.kept -= int64(len(h.buffer))
				h.batch = t.batch
				h.batch.adopt(int64(len(h.buffer)))
			}
			h.handedOut = true
			t.held[first] = h
		}
	}
	for _, child := range data.Children() {
		t.markOut(child)
	}
}

// releaseAll frees the buffers that the library still holds. The library must not be
// running, nor be used again.
func (t *decoderAllocator) releaseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.held {
		if !h.handedOut {
			t.release(h)
		}
	}
}
