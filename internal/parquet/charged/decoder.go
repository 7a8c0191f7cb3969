package charged

import (
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// DecoderAllocator is the library's allocator. It knows which buffers the library holds, and frees
// the buffers that the library does not free: the library's delta decoders never free their
// buffers, and a decoder that panics frees nothing. Buffers that were handed out in a batch belong
// to the batch.
//
// Freeing a buffer that is no longer held does nothing, so each buffer is freed once. It
// is safe for concurrent use.
//
// Buffers are allocated from the open batch's Allocator. Buffers that the library still holds when
// the batch is finished are kept: they are charged to the reader until they are handed out in a
// later batch, and to that batch from then on.
type DecoderAllocator struct {
	under memory.Allocator

	mu    sync.Mutex
	batch *Allocator // of the open batch
	held  map[*byte]heldBuffer
	kept  int64 // bytes of the kept buffers
}

// heldBuffer is a buffer of the library or of a batch.
type heldBuffer struct {
	buffer    []byte
	batch     *Allocator // nil: kept
	handedOut bool
}

// NewDecoderAllocator returns an allocator without a batch.
func NewDecoderAllocator(under memory.Allocator) *DecoderAllocator {
	return &DecoderAllocator{under: under, held: map[*byte]heldBuffer{}}
}

// SetBatch sets the allocator of the buffers allocated from now on.
func (t *DecoderAllocator) SetBatch(m *Allocator) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.batch = m
}

// Keep moves the buffers that the library still holds from a finished batch to the reader. It
// returns the size of these buffers, and the size of all kept buffers.
func (t *DecoderAllocator) Keep(m *Allocator) (moved, kept int64) {
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

// Allocate allocates a buffer of the open batch.
func (t *DecoderAllocator) Allocate(size int) []byte {
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

// Reallocate replaces a buffer by one of the open batch.
func (t *DecoderAllocator) Reallocate(size int, b []byte) []byte {
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

// Free frees a buffer that is held.
func (t *DecoderAllocator) Free(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, held := t.held[unsafe.SliceData(b)]; held {
		t.release(h)
	}
}

func (t *DecoderAllocator) release(h heldBuffer) {
	size := int64(len(h.buffer))
	delete(t.held, unsafe.SliceData(h.buffer))
	t.under.Free(h.buffer)
	t.released(h.batch, size)
}

// released subtracts n freed bytes from the used bytes of a batch, or from the kept bytes if from
// is nil.
func (t *DecoderAllocator) released(from *Allocator, n int64) {
	if from == nil {
		t.kept -= n
	} else {
		from.release(n)
	}
}

func (t *DecoderAllocator) track(b []byte, h heldBuffer) {
	if cap(b) > 0 {
		h.buffer = b
		t.held[unsafe.SliceData(b)] = h
	}
}

// HandOut moves the buffers of an array from the library to the open batch.
func (t *DecoderAllocator) HandOut(data arrow.ArrayData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markOut(data)
}

func (t *DecoderAllocator) markOut(data arrow.ArrayData) {
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

// ReleaseAll frees the buffers that the library still holds. It returns the size of the kept
// buffers that are left, which is 0 unless a batch has one of them. The library must not be
// running, and must not be used again.
func (t *DecoderAllocator) ReleaseAll() (kept int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.held {
		if !h.handedOut {
			t.release(h)
		}
	}
	return t.kept
}
