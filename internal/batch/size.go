package batch

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Size returns the bytes of memory that a batch keeps alive: its buffers as they
// were allocated, including dictionaries and children. A buffer that several columns
// share counts once. A sliced buffer counts in full, since all of it stays in memory.
func Size(b arrow.RecordBatch) int64 { return ArraySize(b.Columns()...) }

// ArraySize returns the Size of a batch of these columns.
func ArraySize(columns ...arrow.Array) int64 {
	m := measure{}
	for _, c := range columns {
		m.add(c.Data())
	}
	return m.sum()
}

// measure has the length of the longest buffer at each address.
type measure map[*byte]int64

func (m measure) sum() (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

func (m measure) add(data arrow.ArrayData) {
	m.addOwn(data)
	if dictionary, _ := data.Dictionary().(*array.Data); dictionary != nil {
		m.add(dictionary)
	}
}

// addOwn adds an array without its dictionary.
func (m measure) addOwn(data arrow.ArrayData) {
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
}

// CountNulls counts the nulls of a batch's arrays, and of all arrays in them. Arrow counts the
// nulls of a slice on the first call of NullN, and stores the number. Call CountNulls before
// several goroutines read a batch, since they would race.
func CountNulls(b arrow.RecordBatch) {
	for _, column := range b.Columns() {
		countNulls(column)
	}
}

func countNulls(a arrow.Array) {
	a.NullN()
	switch a := a.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			countNulls(a.Field(i))
		}
	case *array.Dictionary:
		countNulls(a.Indices())
		countNulls(a.Dictionary())
	case *array.Map:
		countNulls(a.ListValues())
	case array.ListLike:
		countNulls(a.ListValues())
	}
}
