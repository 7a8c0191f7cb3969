package batch

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Size returns the bytes of memory that a batch keeps alive: its buffers as they
// were allocated, including dictionaries and children. A buffer that several columns
// share counts once. A sliced buffer counts in full, since all of it stays in memory.
func Size(b arrow.RecordBatch) int64 { return ArraySize(b.Columns()...) }

// ArraySize returns the Size of a batch that has these columns.
func ArraySize(columns ...arrow.Array) int64 {
	m := measure{}
	for _, c := range columns {
		m.add(c.Data())
	}
	return m.sum()
}

// measure has the length of the longest buffer that begins at each address.
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

// Retained counts the memory that retained arrays keep alive: for each buffer, the number of arrays
// that refer to it. A slice of a buffer keeps all of it. It does not count the dictionary of an
// array, which has another owner that has reserved its memory. It does count the dictionaries of an
// array's fields.
type Retained map[*memory.Buffer]int

// Add adds arrays, and returns the bytes that no array kept before.
func (r Retained) Add(arrays []arrow.Array) int64 { return r.count(arrays, 1) }

// Remove removes arrays that were added, and returns the bytes that no array keeps
// anymore.
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

// CopySize returns the total size of the arrays' distinct buffers. Of a slice of a larger buffer,
// only the slice counts. If no array is coded, the result is an upper bound of the size of a copy
// of all rows.
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

// eachBuffer calls see with each buffer of an array and its children.
func eachBuffer(data arrow.ArrayData, see func(*memory.Buffer)) {
	for _, b := range data.Buffers() {
		if b != nil {
			see(b)
		}
	}
	for _, child := range data.Children() {
		eachBuffer(child, see)
		if dictionary, _ := child.Dictionary().(*array.Data); dictionary != nil {
			eachBuffer(dictionary, see)
		}
	}
}

// ReleaseAll releases those values that are not nil.
func ReleaseAll[T interface {
	comparable
	Release()
}](all ...T) {
	var none T
	for _, one := range all {
		if one != none {
			one.Release()
		}
	}
}
