package disk

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
)

// bodyReader makes arrays that refer to memory read from a file. It checks everything that could
// make an array panic or expose memory outside of its buffers.
type bodyReader struct {
	chunk        *readableChunk
	dictionaries []*array.Data  // of the chunk
	buffer       *memory.Buffer // the rest of the buffer of the next array
	at           int
}

// nextDictionaries makes dictionaries that refer to some buffers.
func (r *bodyReader) nextDictionaries(buffers []*memory.Buffer) error {
	for _, r.buffer = range buffers {
		n := len(r.dictionaries)
		form := r.chunk.forms[n]
		r.at = 0
		d, _, err := r.array(form, form.of, r.chunk.shape.dictionaries[n])
		if err != nil {
			return err
		}
		r.dictionaries = append(r.dictionaries, d)
	}
	return nil
}

// nextArrays appends arrays that refer to some buffers.
func (r *bodyReader) nextArrays(buffers []*memory.Buffer, out []arrow.Array) ([]arrow.Array, error) {
	for _, r.buffer = range buffers {
		r.at = 0
		d, _, err := r.array(r.chunk.form, r.chunk.form.of, r.chunk.shape.arrays[len(out)])
		if err != nil {
			return out, err
		}
		out = append(out, array.MakeFromData(d))
		d.Release()
	}
	return out, nil
}

// release drops the dictionaries.
func (r *bodyReader) release() {
	for _, d := range r.dictionaries {
		d.Release()
	}
	r.dictionaries = nil
}

// take returns the next n bytes of the array's buffer.
func (r *bodyReader) take(n int64) *memory.Buffer {
	out := memory.SliceBuffer(r.buffer, r.at, int(n))
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

// buffers takes a node's buffers, without those of its children. The first is the validity bitmap
// or nil. The caller releases them.
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

// owned returns a copy of a slice. The caller releases the elements of the original, and the copy
// keeps its own references.
func owned(buffers []*memory.Buffer) []*memory.Buffer { return append([]*memory.Buffer{}, buffers...) }

// childType returns the type of child n.
func childType(of arrow.DataType, n int) arrow.DataType {
	nested, _ := of.(arrow.NestedType)
	return nested.Fields()[n].Type
}

// check checks the content of a node's buffers, and the length of a list's items. It does not check
// the node's children.
func (f *arrayForm) check(n arrayNode, buffers []*memory.Buffer, below []arrayNode) error {
	if buffers[0] != nil && n.length-int64(bitutil.CountSetBits(buffers[0].Bytes(), 0, int(n.length))) != n.nulls {
		return damaged("the number of nulls of an array does not match")
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

// lastOffset returns the last of n+1 offsets. ok is false if the first offset is not 0 or the
// offsets decrease.
func (f *arrayForm) lastOffset(offsets []byte, n int64) (last int64, ok bool) {
	if f.bits == wideBits {
		return increasing(arrow.Int64Traits.CastFromBytes(offsets)[:n+1])
	}
	return increasing(arrow.Int32Traits.CastFromBytes(offsets)[:n+1])
}

// increasing returns the last of some offsets, and whether they never decrease. Its loop has no
// branch: it collects the sign bits of all differences.
func increasing[T int32 | int64](offsets []T) (last int64, ok bool) {
	var signs, before T
	for _, o := range offsets {
		signs |= o | (o - before)
		before = o
	}
	return int64(before), signs >= 0 && offsets[0] == 0
}

// checkIndices checks the indices of an array against the length of its dictionary. In files, nulls
// may have any index; checkIndices sets their impossible indices to 0.
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

// checkBlocks checks the checksums of an extent. number is the number of its first block, and
// buffers hold its bytes.
func checkBlocks(c *readableChunk, number int64, buffers []*memory.Buffer) error {
	var d xxhash.Digest
	filled := 0
	for i, b := range buffers {
		for content := b.Bytes(); len(content) > 0 || i == len(buffers)-1 && filled > 0; {
			if filled == 0 {
				d.ResetWithSeed(seed(c.key, number))
			}
			n := min(len(content), blockSize-filled)
			_, _ = d.Write(content[:n])
			content, filled = content[n:], filled+n
			if filled < blockSize && (len(content) > 0 || i < len(buffers)-1) {
				continue
			}
			if d.Sum64() != c.sums[number] {
				return damaged("the checksum of a block does not match")
			}
			number, filled = number+1, 0
		}
	}
	return nil
}
