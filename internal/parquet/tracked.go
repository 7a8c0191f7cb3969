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
//
// Buffers are taken from the open batch's allowance. Those that the decoder holds on
// to when the batch is made are kept: they are not the batch's to account for, unless a
// later batch is made of them. Then they are that one's.
type tracked struct {
	under memory.Allocator

	mu   sync.Mutex
	now  *allowance // of the open batch
	held map[*byte]holder
	kept int64 // bytes that are kept
}

// holder is a buffer of the decoder, or of a batch.
type holder struct {
	buffer []byte
	from   *allowance // nil: kept
	out    bool
}

func track(under memory.Allocator) *tracked {
	return &tracked{under: under, held: map[*byte]holder{}}
}

// begin says whose new buffers are.
func (t *tracked) begin(m *allowance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = m
}

// keep takes the buffers over that the decoder holds of a batch that is made, and
// returns their bytes, and those of all that are kept.
func (t *tracked) keep(m *allowance) (moved, kept int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for first, h := range t.held {
		if h.from == m && !h.out {
			h.from = nil
			t.held[first] = h
			moved += int64(len(h.buffer))
		}
	}
	t.kept += moved
	return moved, t.kept
}

func (t *tracked) Allocate(size int) []byte {
	t.mu.Lock()
	m := t.now
	t.mu.Unlock()
	m.take(int64(size))
	b := t.under.Allocate(size)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(b, holder{from: m})
	return b
}

func (t *tracked) Reallocate(size int, b []byte) []byte {
	t.mu.Lock()
	m := t.now
	was, held := t.held[unsafe.SliceData(b)]
	t.mu.Unlock()
	if !held {
		out := t.Allocate(size)
		copy(out, b)
		return out
	}
	before, after := int64(size), int64(len(was.buffer))
	if was.from == m {
		before, after = moved(size, was.buffer)
	}
	m.take(before)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, unsafe.SliceData(b))
	out := t.under.Reallocate(size, b)
	t.hold(out, holder{from: m, out: was.out})
	t.gave(was.from, after)
	return out
}

func (t *tracked) Free(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, held := t.held[unsafe.SliceData(b)]; held {
		t.free(h)
	}
}

func (t *tracked) free(h holder) {
	size := int64(len(h.buffer))
	delete(t.held, unsafe.SliceData(h.buffer))
	t.under.Free(h.buffer)
	t.gave(h.from, size)
}

// gave says that bytes are free which were a batch's, or kept.
func (t *tracked) gave(from *allowance, n int64) {
	if from == nil {
		t.kept -= n
	} else {
		from.give(n)
	}
}

func (t *tracked) hold(b []byte, h holder) {
	if cap(b) > 0 {
		h.buffer = b
		t.held[unsafe.SliceData(b)] = h
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
			if h.from == nil {
				t.kept -= int64(len(h.buffer))
				h.from = t.now
				h.from.adopt(int64(len(h.buffer)))
			}
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
	for _, h := range t.held {
		if !h.out {
			t.free(h)
		}
	}
}
