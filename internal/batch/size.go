package batch

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Size returns the bytes of memory that a batch holds: its buffers as they
// were allocated, dictionaries and children included. A buffer that several
// columns share counts once; one of which the batch shows only a slice counts
// whole, because whole it is held.
func Size(b arrow.RecordBatch) int64 { return ArraySize(b.Columns()...) }

// ArraySize returns what Size would of a batch of these columns.
func ArraySize(columns ...arrow.Array) int64 {
	m := measure{}
	for _, c := range columns {
		m.add(c.Data())
	}
	var sum int64
	for _, n := range m {
		sum += n
	}
	return sum
}

// measure holds the longest buffer that begins at each address.
type measure map[*byte]int64

func (m measure) add(data arrow.ArrayData) {
	for _, b := range data.Buffers() {
		if b == nil {
			continue
		}
		for b.Parent() != nil {
			b = b.Parent()
		}
		if b.Cap() > 0 {
			start := unsafe.SliceData(b.Buf())
			m[start] = max(m[start], int64(b.Cap()))
		}
	}
	for _, child := range data.Children() {
		m.add(child)
	}
	if dictionary, _ := data.Dictionary().(*array.Data); dictionary != nil {
		m.add(dictionary)
	}
}
