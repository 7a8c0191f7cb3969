package disk

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// bodyReader makes arrays over extents that were read. It checks everything that could
// make an array fail or show memory that is not its own.
type bodyReader struct {
	chunk        *readableChunk
	dictionaries []*array.Data // of the chunk
	extent       *memory.Buffer
	at           int
}

// release drops the dictionaries.
func (r *bodyReader) release() {
	for _, d := range r.dictionaries {
		d.Release()
	}
	r.dictionaries = nil
}

// take returns the next n bytes of the extent.
func (r *bodyReader) take(n int64) *memory.Buffer {
	out := memory.SliceBuffer(r.extent, r.at, int(n))
	r.at += int(padded(n))
	return out
}

// array makes the array of the first of the nodes, and returns the other nodes. The caller
// releases the array.
func (r *bodyReader) array(f *arrayForm, of arrow.DataType, nodes []arrayNode) (*array.Data, []arrayNode, error) {
	n, below := nodes[0], nodes[1:]
	buffers := r.buffers(f, n)
	var children []arrow.ArrayData
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
		for _, c := range children {
			c.Release()
		}
	}()
	if err := f.check(n, buffers, below); err != nil {
		return nil, nil, err
	}
	for i, form := range f.children {
		child, rest, err := r.array(form, childType(of, i), below)
		if err != nil {
			return nil, nil, err
		}
		children, below = append(children, child), rest
	}
	if f.kind == dictionaryForm {
		dictionary := r.dictionaries[n.extra]
		if err := checkIndices(buffers, n, dictionary.Len()); err != nil {
			return nil, nil, err
		}
		return array.NewDataWithDictionary(of, int(n.length), owned(buffers), int(n.nulls), 0, dictionary), below, nil
	}
	return array.NewData(of, int(n.length), owned(buffers), children, int(n.nulls), 0), below, nil
}

// buffers takes a node's own buffers, the first of which is the validity or nil. The caller releases them.
func (r *bodyReader) buffers(f *arrayForm, n arrayNode) []*memory.Buffer {
	out := make([]*memory.Buffer, 1, 3)
	validity, first, second := f.buffers(n)
	if validity >= 0 {
		out[0] = r.take(validity)
	}
	for _, bytes := range []int64{first, second} {
		if bytes >= 0 {
			out = append(out, r.take(bytes))
		}
	}
	return out
}

// owned returns a copy of a slice whose elements the caller releases and the result keeps.
func owned(buffers []*memory.Buffer) []*memory.Buffer { return append([]*memory.Buffer{}, buffers...) }

// childType returns the type of child n.
func childType(of arrow.DataType, n int) arrow.DataType {
	nested, _ := of.(arrow.NestedType)
	return nested.Fields()[n].Type
}

// check checks the content of a node's own buffers, and the length of a list's items.
func (f *arrayForm) check(n arrayNode, buffers []*memory.Buffer, below []arrayNode) error {
	if buffers[0] != nil && n.length-int64(bitutil.CountSetBits(buffers[0].Bytes(), 0, int(n.length))) != n.nulls {
		return damaged("an array has another number of nulls")
	}
	if f.kind != textForm && f.kind != listForm {
		return nil
	}
	last, ok := f.lastOffset(buffers[1].Bytes(), n.length)
	if !ok || f.kind == textForm && last != n.extra || f.kind == listForm && last != below[0].length {
		return damaged("offsets of an array are impossible")
	}
	return nil
}

// lastOffset returns the last of n+1 offsets. ok is false if the first is not 0 or one is
// less than the one before it.
func (f *arrayForm) lastOffset(offsets []byte, n int64) (last int64, ok bool) {
	if f.bits == wideBits {
		return increasing(arrow.Int64Traits.CastFromBytes(offsets)[:n+1])
	}
	return increasing(arrow.Int32Traits.CastFromBytes(offsets)[:n+1])
}

// increasing returns the last of some offsets. It has no branch in its loop: the sign of
// all differences is collected.
func increasing[T int32 | int64](offsets []T) (last int64, ok bool) {
	var signs, before T
	for _, o := range offsets {
		signs |= o | (o - before)
		before = o
	}
	return int64(before), signs >= 0 && offsets[0] == 0
}

// checkIndices checks the indices of an array with a dictionary of some length. Nulls may
// have any index in files; impossible ones become 0.
func checkIndices(buffers []*memory.Buffer, n arrayNode, length int) error {
	indices := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes())[:n.length]
	var highest uint32
	for _, i := range indices {
		highest = max(highest, uint32(i))
	}
	if n.length == 0 || int64(highest) < int64(length) {
		return nil
	}
	if buffers[0] == nil {
		return damaged("an index is outside of the dictionary")
	}
	validity := buffers[0].Bytes()
	for i, index := range indices {
		if int64(uint32(index)) < int64(length) {
			continue
		}
		if bitutil.BitIsSet(validity, i) {
			return damaged("an index is outside of the dictionary")
		}
		indices[i] = 0
	}
	return nil
}

// checkBlocks checks the checksums of an extent whose first block has a number.
func checkBlocks(c *readableChunk, first int64, content []byte) error {
	for number := first; len(content) > 0; number++ {
		block := content[:min(len(content), blockSize)]
		if checksum(c.key, number, block) != c.sums[number] {
			return damaged("the checksum of a block does not match")
		}
		content = content[len(block):]
	}
	return nil
}
