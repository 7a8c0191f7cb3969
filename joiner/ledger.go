package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ledger counts the memory that retained arrays keep, each buffer once, by
// how many of the arrays keep it. A buffer that is a part of another keeps it
// whole.
type ledger map[*memory.Buffer]int

// enter counts arrays in, and returns the bytes that nothing kept before.
func (l ledger) enter(arrays []arrow.Array) int64 { return l.count(arrays, 1) }

// strike counts arrays out that were counted in, and returns the bytes that
// nothing keeps any more.
func (l ledger) strike(arrays []arrow.Array) int64 { return l.count(arrays, -1) }

func (l ledger) count(arrays []arrow.Array, by int) int64 {
	var bytes int64
	for _, a := range arrays {
		eachBuffer(a.Data(), func(b *memory.Buffer) {
			for b.Parent() != nil {
				b = b.Parent()
			}
			before := l[b]
			l[b] = before + by
			if before == 0 || before+by == 0 {
				bytes += int64(b.Cap())
			}
			if before+by == 0 {
				delete(l, b)
			}
		})
	}
	return bytes
}

// copied returns the bytes of the arrays' own buffers, each once: at least
// what a copy of all their rows takes.
func copied(arrays []arrow.Array) int64 {
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

// eachBuffer calls see with the buffers of an array and its children. There
// are no dictionaries among staging columns.
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
