package disk

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// bodyWriter writes the body of a chunk block by block. Each block is a copy, so that a disk that
// hangs keeps no memory except the block.
type bodyWriter struct {
	key     ChunkKey
	store   func(block []byte) error // store may keep using the block after an error
	block   []byte
	sums    []uint64
	scratch []byte
}

// scratchSize is the number of bytes that are shifted or rebased at a time.
const scratchSize = 8 << 10

// body writes all extents of a chunk.
func (w *bodyWriter) body(f *arrayForm, m *measuring, l *chunkLayout, arrays []arrow.Array) error {
	next := 0
	for _, e := range l.dictionaries {
		for range e.arrays {
			if err := w.array(m.forms[next], m.shape.dictionaries[next], windowOf(m.kept[next])); err != nil {
				return err
			}
			next++
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	next = 0
	for _, e := range l.arrays {
		for range e.arrays {
			if err := w.array(f, m.shape.arrays[next], windowOf(arrays[next].Data())); err != nil {
				return err
			}
			next++
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

// array writes an array that has the given nodes.
func (w *bodyWriter) array(f *arrayForm, nodes []arrayNode, from window) error {
	_, err := w.nodes(f, nodes, from)
	return err
}

// nodes writes the first node and its descendants, and returns the remaining nodes.
func (w *bodyWriter) nodes(f *arrayForm, nodes []arrayNode, from window) ([]arrayNode, error) {
	n := nodes[0]
	nodes = nodes[1:]
	if validity, _, _ := f.buffers(n); validity >= 0 {
		if err := w.bits(from.buffer(0), from.at, n.length); err != nil {
			return nil, err
		}
	}
	if err := w.values(f, from); err != nil {
		return nil, err
	}
	for i, child := range f.children {
		rows, err := childOf(f, from, i)
		if err != nil {
			return nil, err
		}
		if nodes, err = w.nodes(child, nodes, rows); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// values writes the buffers of a window besides its validity.
func (w *bodyWriter) values(f *arrayForm, from window) error {
	switch f.kind {
	case fixedForm, dictionaryForm:
		if f.bits == 1 {
			return w.bits(from.buffer(1), from.at, from.length)
		}
		width := f.bits / byteBits
		return w.buffer(slice(from.buffer(1), from.at*width, from.length*width))
	case listForm:
		return w.offsets(f, from)
	case textForm:
		if err := w.offsets(f, from); err != nil {
			return err
		}
		first, last, err := from.span(f.bits)
		if err != nil {
			return err
		}
		return w.buffer(slice(from.buffer(2), first, last-first))
	case nullForm, fixedListForm, structForm:
	}
	return nil
}

// slice returns n bytes of a buffer. The buffer may be nil if n is 0.
func slice(buffer []byte, at, n int64) []byte {
	if n == 0 {
		return nil
	}
	return buffer[at : at+n]
}

// bits writes n bits of a bitmap, starting at bit at, as a separate buffer.
func (w *bodyWriter) bits(bitmap []byte, at, n int64) error {
	if at%byteBits == 0 || n == 0 {
		return w.buffer(slice(bitmap, at/byteBits, bytesOf(n, 1)))
	}
	for done := int64(0); done < n; {
		count := min(n-done, scratchSize*byteBits)
		shifted := w.scratch[:bytesOf(count, 1)]
		clear(shifted)
		bitutil.CopyBitmap(bitmap, int(at+done), int(count), shifted, 0)
		if err := w.write(shifted); err != nil {
			return err
		}
		done += count
	}
	return w.pad()
}

// offsets writes the offsets of a window, shifted so that the first offset is 0.
func (w *bodyWriter) offsets(f *arrayForm, from window) error {
	first, _, err := from.span(f.bits)
	if err != nil {
		return err
	}
	width := f.bits / byteBits
	if first == 0 && from.length > 0 {
		return w.buffer(slice(from.buffer(1), from.at*width, (from.length+1)*width))
	}
	for done := int64(0); done <= from.length; {
		count := min(from.length+1-done, scratchSize/width)
		rebased := w.scratch[:0]
		for i := range count {
			value := int64(0)
			if from.length > 0 {
				value = from.offset(done+i, f.bits) - first
			}
			if width == wideBits/byteBits {
				rebased = binary.LittleEndian.AppendUint64(rebased, uint64(value))
			} else {
				rebased = binary.LittleEndian.AppendUint32(rebased, uint32(value))
			}
		}
		if err := w.write(rebased); err != nil {
			return err
		}
		done += count
	}
	return w.pad()
}

// buffer writes a whole buffer.
func (w *bodyWriter) buffer(content []byte) error {
	if err := w.write(content); err != nil {
		return err
	}
	return w.pad()
}

// write appends to the open block, and stores blocks that are full.
func (w *bodyWriter) write(content []byte) error {
	for len(content) > 0 {
		n := min(len(content), blockSize-len(w.block))
		w.block = append(w.block, content[:n]...)
		content = content[n:]
		if len(w.block) == blockSize {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pad appends zeros to the open block up to the alignment.
func (w *bodyWriter) pad() error {
	var zeros [alignment]byte
	return w.write(zeros[:padded(int64(len(w.block)))-int64(len(w.block))])
}

// flush stores the open block.
func (w *bodyWriter) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	w.sums = append(w.sums, checksum(w.key, int64(len(w.sums)), w.block))
	if err := w.store(w.block); err != nil {
		w.block = nil // the failed call may still use the block
		return err
	}
	w.block = w.block[:0]
	return nil
}
