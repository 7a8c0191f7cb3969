package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Retained counts the memory that retained arrays keep: for each buffer how
// many of the arrays keep it. A buffer that is a part of another keeps it
// whole. Arrays have no dictionaries.
type Retained map[*memory.Buffer]int

// Add counts arrays in, and returns the bytes that none kept before.
func (r Retained) Add(arrays []arrow.Array) int64 { return r.count(arrays, 1) }

// Remove counts arrays out that were added, and returns the bytes that none
// keeps any more.
func (r Retained) Remove(arrays []arrow.Array) int64 { return r.count(arrays, -1) }

func (r Retained) count(arrays []arrow.Array, by int) int64 {
	var bytes int64
	for _, a := range arrays {
		eachBuffer(a.Data(), func(b *memory.Buffer) {
			for b.Parent() != nil {
				b = b.Parent()
			}
			before := r[b]
			r[b] = before + by
			if before == 0 || before+by == 0 {
				bytes += int64(b.Cap())
			}
			if before+by == 0 {
				delete(r, b)
			}
		})
	}
	return bytes
}

// CopySize returns the bytes of the arrays' own buffers, each once: at least
// what a copy of all their rows takes. Arrays have no dictionaries.
func CopySize(arrays []arrow.Array) int64 {
	seen, bytes := map[*memory.Buffer]bool{}, int64(0)
	for _, a := range arrays {
		eachBuffer(a.Data(), func(b *memory.Buffer) {
			if !seen[b] {
				seen[b] = true
				bytes += int64(b.Len())
			}
		})
	}
	return bytes
}

// eachBuffer calls see with the buffers of an array and its children.
func eachBuffer(data arrow.ArrayData, see func(*memory.Buffer)) {
	for _, b := range data.Buffers() {
		if b != nil {
			see(b)
		}
	}
	for _, child := range data.Children() {
		eachBuffer(child, see)
	}
}
