package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// unwrap takes the column out of structs of one field each, so many levels
// deep. It is null where any of them is; its values keep their buffers. The
// caller releases the result.
func unwrap(data arrow.ArrayData, depth int, mem memory.Allocator) arrow.ArrayData {
	if depth == 0 {
		data.Retain()
		return data
	}
	n := data.Len()
	leaf, offset, combined := within(data, depth, mem)
	buffers, nulls := leaf.Buffers(), array.UnknownNullCount
	if combined != nil {
		defer combined.Release()
		if own := buffers[0]; own != nil && own.Len() > 0 {
			and(combined.Bytes(), offset, own.Bytes(), offset, n)
		}
		buffers = append([]*memory.Buffer{combined}, buffers[1:]...)
	} else if len(buffers) > 0 && buffers[0] == nil {
		nulls = 0
	}
	return array.NewData(leaf.DataType(), n, buffers, leaf.Children(), nulls, offset)
}

// within goes so many structs of one field deep, and returns what is there, from where
// on the rows stand in it, and bits for where none of the structs is null, from there
// on, for the caller to release; nil if none is null anywhere.
func within(data arrow.ArrayData, depth int, mem memory.Allocator) (leaf arrow.ArrayData, offset int, valid *memory.Buffer) {
	n := data.Len()
	leaf, offset = data, data.Offset()
	var around []arrow.ArrayData // the structs with nulls
	var starts []int             // where the rows begin in each
	for range depth {
		if nullCount(leaf) > 0 {
			around, starts = append(around, leaf), append(starts, offset)
		}
		leaf = leaf.Children()[0]
		offset += leaf.Offset()
	}
	if len(around) == 0 {
		return leaf, offset, nil
	}
	valid = memory.NewResizableBuffer(mem)
	valid.Resize(int(bitutil.BytesForBits(int64(offset + n))))
	bits := valid.Bytes()
	clear(bits)
	bitutil.SetBitsTo(bits, int64(offset), int64(n), true)
	for i, s := range around {
		and(bits, offset, s.Buffers()[0].Bytes(), starts[i], n)
	}
	return leaf, offset, valid
}

// around makes a column that the file lacks: a constant where a struct of the file is
// not null. Of the struct one column is read, as structs say for themselves nowhere
// whether they are null.
func (f *File) around(id int, s *shape, constant Constant) (column, error) {
	parent, ok := f.structure(id)
	if !ok {
		return column{}, fault.New(fault.Internal, "the file has no struct with field id %d around column %s", id, s.path)
	}
	leaf := parent.Leaves[0]
	for _, other := range parent.Leaves {
		if f.meta.Schema.Column(other).MaxRepetitionLevel() < f.meta.Schema.Column(leaf).MaxRepetitionLevel() {
			leaf = other // not a list, where there is something else
		}
	}
	return column{field: parent.root, depth: parent.depth + 1, shape: s, leaves: []int{leaf}, absent: constant}, nil
}

// fill returns the column that the file lacks, for the rows of what is read in its
// place. The caller releases the result.
func (c column) fill(read arrow.ArrayData, mem memory.Allocator) (arrow.ArrayData, error) {
	_, offset, valid := within(read, c.depth, mem)
	var bits []byte
	if valid != nil {
		defer valid.Release()
		bits = valid.Bytes()
	}
	values, err := c.absent(read.Len(), bits, offset, mem)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	values.Data().Retain()
	return values.Data(), nil
}

// and keeps of n bits those that are set in both.
func and(bits []byte, at int, other []byte, from, n int) {
	for i := range n {
		if !bitutil.BitIsSet(other, from+i) {
			bitutil.ClearBit(bits, at+i)
		}
	}
}
