package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Size returns the number of bytes that Gather would allocate for the same segments (see
// AllocatedSize). It reads offsets and widths and copies nothing. The result may be slightly too
// large, if columns share validity bits, but never too small. Size returns the same errors as
// Gather, but it does not detect offsets that overflow.
func (g *Gatherer) Size(dt arrow.DataType, segments []Segment) (int64, error) {
	inputs, rows, err := g.inputs(dt, segments)
	if err != nil {
		return 0, err
	}
	return g.size(dt, inputs, int64(rows)), nil
}

// ValueBytes returns the bytes of the values of the segments' rows, including offsets, without
// validity and the rounding of allocators. It depends only on the rows, not on how they are divided
// into segments. It returns the same errors as Size.
func ValueBytes(segments []Segment) (int64, error) {
	if len(segments) == 0 {
		return 0, nil
	}
	g := gathering{valuesOnly: true, remedy: remedyBatch}
	dt := ValueType(segments[0].Values.DataType())
	inputs, rows, err := g.inputs(dt, segments)
	if err != nil {
		return 0, err
	}
	return g.size(dt, inputs, int64(rows)), nil
}

// AllocatedSize returns the bytes that an allocator uses for an Arrow buffer of n bytes. A Pool, or
// a Poison over one, rounds n up; for any other allocator, AllocatedSize returns n.
func AllocatedSize(mem memory.Allocator, n int64) int64 {
	if r, ok := mem.(rounding); ok && n > 0 {
		return r.allocatedSize(n)
	}
	return n
}

// rounding is an allocator that rounds sizes up.
type rounding interface{ allocatedSize(n int64) int64 }

var _, _ rounding = (*Pool)(nil), (*Poison)(nil)

// allocatedSize implements rounding.
func (*Pool) allocatedSize(n int64) int64 {
	n = (n + alignment - 1) / alignment * alignment // as Arrow's buffers grow
	if n > 1<<maxClassBits {
		return n + alignment
	}
	_, room, _ := class(int(n))
	return int64(room)
}

// allocatedSize implements rounding.
func (p *Poison) allocatedSize(n int64) int64 { return AllocatedSize(p.under, n) }

// allocatedSize is AllocatedSize for the gathering's allocator.
func (g *gathering) allocatedSize(n int64) int64 { return AllocatedSize(g.mem, n) }

// size returns the number of bytes that the method column would allocate for the same arguments.
func (g *gathering) size(dt arrow.DataType, inputs []input, rows int64) int64 {
	if dt.ID() == arrow.NULL {
		return 0
	}
	bytes := int64(0)
	for _, p := range inputs {
		if !g.valuesOnly && p.nullness() != noNulls {
			bytes = g.allocatedSize(bitutil.BytesForBits(rows))
			break
		}
	}
	switch dt := dt.(type) {
	case *arrow.StructType:
		for i, field := range dt.Fields() {
			bytes += g.size(field.Type, fieldInputs(inputs, i), rows)
		}
		return bytes
	case *arrow.FixedSizeListType:
		inner := make([]input, len(inputs))
		for i, p := range inputs {
			inner[i] = g.itemsOf(p, int(dt.Len()))
		}
		bytes += g.size(dt.Elem(), inner, rows*int64(dt.Len()))
		g.recycle(inner)
		return bytes
	case *arrow.ListType, *arrow.MapType:
		return bytes + listSize[int32](g, dt.(arrow.ListLikeType).Elem(), inputs, rows)
	case *arrow.LargeListType:
		return bytes + listSize[int64](g, dt.Elem(), inputs, rows)
	case *arrow.StringType, *arrow.BinaryType:
		return bytes + g.allocatedSize((rows+1)*int64(widthOf[int32]())) + g.allocatedSize(itemCount[int32](inputs))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return bytes + g.allocatedSize((rows+1)*int64(widthOf[int64]())) + g.allocatedSize(itemCount[int64](inputs))
	case *arrow.BooleanType:
		return bytes + g.allocatedSize(bitutil.BytesForBits(rows))
	case *arrow.DictionaryType:
		return bytes + g.allocatedSize(rows*int64(dt.IndexType.(arrow.FixedWidthDataType).Bytes()))
	default:
		return bytes + g.allocatedSize(rows*int64(dt.(arrow.FixedWidthDataType).Bytes()))
	}
}

// itemCount counts the list items, or bytes of text, of the selected rows.
func itemCount[O int32 | int64](inputs []input) int64 {
	items := int64(0)
	for _, p := range inputs {
		if p.data == nil {
			continue
		}
		if isCoded(p.data) {
			items += codedBytes(p)
			continue
		}
		src := view[O](p.data.Buffers()[1].Bytes())[p.base:]
		for _, index := range p.indices {
			items += int64(src[index+1] - src[index])
		}
		for _, s := range p.spans {
			items += int64(src[s.from+s.rows] - src[s.from])
		}
	}
	return items
}

// listSize returns the bytes of the offsets and items of lists.
func listSize[O int32 | int64](g *gathering, elem arrow.DataType, inputs []input, rows int64) int64 {
	bytes := g.allocatedSize((rows + 1) * int64(widthOf[O]()))
	items := itemCount[O](inputs)
	if width, ok := plainWidth(elem); ok {
		bytes += g.allocatedSize(items * width)
		if !g.valuesOnly && mayBeNull(inputs) {
			bytes += g.allocatedSize(bitutil.BytesForBits(items))
		}
		return bytes
	}
	inner := make([]input, 0, len(inputs))
	for _, p := range inputs {
		if found := itemSpans[O](g, p); found.rows > 0 {
			items := p.data.Children()[0]
			inner = append(inner, input{data: items, base: items.Offset(), selection: found})
		}
	}
	bytes += g.size(elem, inner, items)
	g.recycle(inner)
	return bytes
}

// plainWidth returns the width in bytes of a type whose values are a single buffer
// of whole bytes; false for other types.
func plainWidth(dt arrow.DataType) (int64, bool) {
	switch dt := dt.(type) {
	case *arrow.BooleanType, *arrow.StructType, *arrow.FixedSizeListType, *arrow.DictionaryType:
		return 0, false
	case arrow.FixedWidthDataType:
		return int64(dt.Bytes()), true
	default:
		return 0, false
	}
}

// mayBeNull reports whether items of the lists may be null.
func mayBeNull(inputs []input) bool {
	for _, p := range inputs {
		if p.data == nil {
			continue
		}
		items := p.data.Children()[0]
		if validity := items.Buffers()[0]; validity != nil && validity.Len() > 0 && items.NullN() != 0 {
			return true
		}
	}
	return false
}

// itemSpans returns the items of the selected lists, as spans.
func itemSpans[O int32 | int64](g *gathering, p input) *selection {
	if p.data == nil {
		return &selection{}
	}
	src := view[O](p.data.Buffers()[1].Bytes())[p.base:]
	found := &selection{spans: g.spans(max(len(p.indices), len(p.spans)))}
	add := func(from, to O) {
		if from < to {
			found.spans = append(found.spans, span{int(from), int(to - from)})
			found.rows += int(to - from)
		}
	}
	for _, index := range p.indices {
		add(src[index], src[index+1])
	}
	for _, s := range p.spans {
		add(src[s.from], src[s.from+s.rows])
	}
	return found
}
