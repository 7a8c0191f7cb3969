package disk

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/fault"
)

// chunkShape is the shape of all arrays of a chunk: for each array, its nodes in the order of its
// type, parents first.
type chunkShape struct {
	dictionaries [][]arrayNode
	arrays       [][]arrayNode
}

// nodes returns how many nodes there are.
func (s *chunkShape) nodes() int64 {
	n := 0
	for _, all := range [][][]arrayNode{s.dictionaries, s.arrays} {
		for _, one := range all {
			n += len(one)
		}
	}
	return int64(n)
}

// rows returns the sum of the arrays' lengths.
func (s *chunkShape) rows() int64 {
	var sum int64
	for _, nodes := range s.arrays {
		sum += nodes[0].length
	}
	return sum
}

// window is rows [at, at+length) of an array's buffers, whatever the array's own offset.
type window struct {
	arrow.ArrayData
	at, length int64
}

func windowOf(d arrow.ArrayData) window { return window{d, int64(d.Offset()), int64(d.Len())} }

// buffer returns the bytes of a buffer; nil if there is none.
func (w window) buffer(n int) []byte {
	if n >= len(w.Buffers()) || w.Buffers()[n] == nil {
		return nil
	}
	return w.Buffers()[n].Bytes()
}

// child returns rows [at, at+length) of a child, counted from the child's first row.
func (w window) child(n int, at, length int64) (window, error) {
	if n >= len(w.Children()) || at < 0 || length < 0 || at+length > int64(w.Children()[n].Len()) {
		return window{}, malformed("a child is missing or too short")
	}
	return window{w.Children()[n], int64(w.Children()[n].Offset()) + at, length}, nil
}

// offset returns the nth offset of the window. n may be up to the window's length.
func (w window) offset(n, bits int64) int64 { return offsetAt(w.buffer(1), w.at+n, bits) }

func offsetAt(offsets []byte, n, bits int64) int64 {
	if bits == wideBits {
		return int64(binary.LittleEndian.Uint64(offsets[n*wideBits/byteBits:]))
	}
	return int64(int32(binary.LittleEndian.Uint32(offsets[n*offsetBits/byteBits:])))
}

// span returns the first and the last offset of the window.
func (w window) span(bits int64) (from, to int64, err error) {
	if w.length == 0 {
		return 0, 0, nil
	}
	if int64(len(w.buffer(1))) < bytesOf(w.at+w.length+1, bits) {
		return 0, 0, malformed("offsets are missing")
	}
	from, to = w.offset(0, bits), w.offset(w.length, bits)
	if from < 0 || to < from {
		return 0, 0, malformed("offsets decrease")
	}
	return from, to, nil
}

func malformed(what string) error {
	return fault.New(fault.Internal, "an array cannot be stored on disk: %s", what)
}

// measuring finds the shape of arrays.
type measuring struct {
	shape chunkShape
	found map[arrow.ArrayData]int64 // the numbers of the dictionaries
	kept  []arrow.ArrayData         // the dictionaries, by number
	forms []*arrayForm              // the forms of the dictionaries, by number
}

// measure returns the shape of arrays and of their dictionaries. A dictionary is stored once,
// however many arrays share it. The caller may use the arrays concurrently: measure does not call
// methods that make the Arrow library compute and store values on demand.
func measure(f *arrayForm, arrays []arrow.Array) (*measuring, error) {
	m := &measuring{found: map[arrow.ArrayData]int64{}}
	for _, a := range arrays {
		nodes, err := m.add(nil, f, windowOf(a.Data()))
		if err != nil {
			return nil, err
		}
		m.shape.arrays = append(m.shape.arrays, nodes)
	}
	return m, nil
}

// add appends the nodes of a window.
func (m *measuring) add(nodes []arrayNode, f *arrayForm, w window) ([]arrayNode, error) {
	node, err := m.node(f, w)
	if err != nil {
		return nil, err
	}
	nodes = append(nodes, node)
	for i := range f.children {
		child, err := childOf(f, w, i)
		if err != nil {
			return nil, err
		}
		if nodes, err = m.add(nodes, f.children[i], child); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// childOf returns the rows of a child that belong to a window.
func childOf(f *arrayForm, w window, n int) (window, error) {
	switch f.kind {
	case listForm:
		from, to, err := w.span(f.bits)
		if err != nil {
			return window{}, err
		}
		return w.child(n, from, to-from)
	case fixedListForm:
		return w.child(n, w.at*f.items, w.length*f.items)
	case structForm:
		return w.child(n, w.at, w.length)
	case nullForm, fixedForm, textForm, dictionaryForm:
	}
	return window{}, malformed("it has a child")
}

// node returns the node of a window itself.
func (m *measuring) node(f *arrayForm, w window) (arrayNode, error) {
	node := arrayNode{length: w.length}
	if f.kind == nullForm {
		node.nulls = w.length
	} else if validity := w.buffer(0); len(validity) > 0 {
		if int64(len(validity)) < bytesOf(w.at+w.length, 1) {
			return node, malformed("its validity is too short")
		}
		node.nulls = w.length - int64(bitutil.CountSetBits(validity, int(w.at), int(w.length)))
	}
	if node.length > maxLength || f.noNulls && node.nulls > 0 {
		return node, malformed("it has too many rows, or nulls although its type does not allow them")
	}
	switch f.kind {
	case fixedForm, dictionaryForm:
		if int64(len(w.buffer(1))) < bytesOf(w.at+w.length, f.bits) {
			return node, malformed("values are missing")
		}
	case textForm:
		from, to, err := w.span(f.bits)
		if err != nil || to > int64(len(w.buffer(2))) {
			return node, malformed("bytes of values are missing")
		}
		node.extra = to - from
	case nullForm, listForm, fixedListForm, structForm:
	}
	if f.kind != dictionaryForm {
		return node, nil
	}
	number, err := m.dictionary(f, w)
	node.extra = number
	return node, err
}

// dictionary returns the number of a window's dictionary.
func (m *measuring) dictionary(f *arrayForm, w window) (int64, error) {
	of, _ := w.Dictionary().(*array.Data)
	if of == nil {
		return 0, malformed("its dictionary is missing")
	}
	if number, ok := m.found[of]; ok {
		return number, nil
	}
	nodes, err := m.add(nil, f.values, windowOf(of))
	if err != nil {
		return 0, err
	}
	number := int64(len(m.kept))
	m.found[of] = number
	m.kept = append(m.kept, of)
	m.forms = append(m.forms, f.values)
	m.shape.dictionaries = append(m.shape.dictionaries, nodes)
	return number, nil
}

// bodyExtent consists of the buffers of some arrays, which are read with one call.
type bodyExtent struct {
	arrays int   // how many of the remaining arrays
	bytes  int64 // a multiple of alignment
}

const (
	// minExtent is the size at which an extent ends. Smaller extents would need more calls; larger
	// ones would need more time within one time limit.
	minExtent = 1 << 20
	// blockSize is the number of bytes of an extent that share a checksum.
	blockSize = 256 << 10
	// maxBody bounds the body of a chunk, in bytes.
	maxBody = 1 << 40
)

// chunkLayout describes where the arrays of a chunk are in its file.
type chunkLayout struct {
	dictionaries []bodyExtent
	arrays       []bodyExtent
	bytes        int64 // the size of all extents
}

// layOut returns the layout of a chunk; ok is false if the chunk is too large. forms are the forms
// of the dictionaries.
func layOut(f *arrayForm, forms []*arrayForm, s *chunkShape) (l chunkLayout, ok bool) {
	var first, second int64
	l.dictionaries, first, ok = cutExtents(func(i int) *arrayForm { return forms[i] }, s.dictionaries)
	if !ok {
		return l, false
	}
	l.arrays, second, ok = cutExtents(func(int) *arrayForm { return f }, s.arrays)
	l.bytes = first + second
	return l, ok && l.bytes <= maxBody
}

// blocks returns how many checksums the chunk has.
func (l *chunkLayout) blocks() int64 {
	var sum int64
	for _, e := range l.dictionaries {
		sum += e.blocks()
	}
	for _, e := range l.arrays {
		sum += e.blocks()
	}
	return sum
}

// cutExtents groups arrays into extents. It returns the sum of their bytes; ok is false if there
// are too many bytes.
func cutExtents(form func(int) *arrayForm, arrays [][]arrayNode) (cut []bodyExtent, total int64, ok bool) {
	open := bodyExtent{}
	for i, nodes := range arrays {
		size, _ := bodyBytes(form(i), nodes)
		open.arrays++
		if open.bytes += size; size > maxBody || total+open.bytes > maxBody {
			return nil, 0, false
		}
		if open.bytes >= minExtent {
			cut, total, open = append(cut, open), total+open.bytes, bodyExtent{}
		}
	}
	if open.arrays > 0 {
		cut, total = append(cut, open), total+open.bytes
	}
	return cut, total, true
}

// bodyBytes returns the size of the padded buffers of the first array of nodes, and the remaining
// nodes. A result greater than maxBody may be inexact.
func bodyBytes(f *arrayForm, nodes []arrayNode) (int64, []arrayNode) {
	var sum int64
	validity, first, second := f.buffers(nodes[0])
	for _, n := range []int64{validity, first, second} {
		sum += padded(max(n, 0))
	}
	nodes = nodes[1:]
	for _, child := range f.children {
		var bytes int64
		bytes, nodes = bodyBytes(child, nodes)
		sum = min(sum+bytes, maxBody+1)
	}
	return min(sum, maxBody+1), nodes
}

// blocks returns how many checksums an extent has.
func (e bodyExtent) blocks() int64 { return (e.bytes + blockSize - 1) / blockSize }
