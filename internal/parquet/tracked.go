package parquet

import (
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// tracked knows which buffers of an allocator the decoder holds, and frees
// those that it forgets: decoders of delta encodings never free theirs, and one
// that panics frees nothing. Buffers that left in a batch are the batch's.
//
// A buffer is freed once, whoever asks how often: what is not held any more is
// left alone. It is safe for concurrent use.
type tracked struct {
	under memory.Allocator

	mu   sync.Mutex
	held map[*byte]holder
}

// holder is a buffer of the decoder, or of a batch.
type holder struct {
	buffer []byte
	out    bool
}

func track(under memory.Allocator) *tracked {
	return &tracked{under: under, held: map[*byte]holder{}}
}

func (t *tracked) Allocate(size int) []byte {
	b := t.under.Allocate(size)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(b, false)
	return b
}

func (t *tracked) Reallocate(size int, b []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, held := t.held[unsafe.SliceData(b)]
	if !held {
		out := t.under.Allocate(size)
		copy(out, b)
		t.hold(out, false)
		return out
	}
	delete(t.held, unsafe.SliceData(b))
	out := t.under.Reallocate(size, b)
	t.hold(out, was.out)
	return out
}

func (t *tracked) Free(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, held := t.held[unsafe.SliceData(b)]; held {
		delete(t.held, unsafe.SliceData(b))
		t.under.Free(b)
	}
}

func (t *tracked) hold(b []byte, out bool) {
	if cap(b) > 0 {
		t.held[unsafe.SliceData(b)] = holder{buffer: b, out: out}
	}
}

// handOut says that an array's buffers are no longer the decoder's alone.
func (t *tracked) handOut(data arrow.ArrayData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markOut(data)
}

func (t *tracked) markOut(data arrow.ArrayData) {
	for _, b := range data.Buffers() {
		if b == nil {
			continue
		}
		for b.Parent() != nil {
			b = b.Parent()
		}
		first := unsafe.SliceData(b.Buf())
		if h, held := t.held[first]; held {
			h.out = true
			t.held[first] = h
		}
	}
	for _, child := range data.Children() {
		t.markOut(child)
	}
}

// sweep frees what the decoder still holds. It must not be running, nor run on.
func (t *tracked) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first, h := range t.held {
		if !h.out {
			delete(t.held, first)
			t.under.Free(h.buffer)
		}
	}
}
