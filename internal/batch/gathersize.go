package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Size returns the bytes that Gather of the same segments takes of the Gatherer's
// memory (see Room). It looks at offsets and widths and copies nothing. It may say
// a little too much, where columns share validity bits, and never too little. It
// fails as Gather does, save for offsets that overflow.
func (g *Gatherer) Size(dt arrow.DataType, segments []Segment) (int64, error) {
	parts, rows, err := g.parts(dt, segments)
	if err != nil {
		return 0, err
	}
	return g.size(dt, parts, int64(rows)), nil
}

// ValueBytes returns the bytes that the values of the segments' rows take, offsets
// included, and neither validity nor what an allocator adds. So it depends on the
// rows alone, not on how they are divided. It fails as Gather does.
func ValueBytes(segments []Segment) (int64, error) {
	if len(segments) == 0 {
		return 0, nil
	}
	g := gathering{values: true, remedy: remedyBatch}
	dt := segments[0].Values.DataType()
	parts, rows, err := g.parts(dt, segments)
	if err != nil {
		return 0, err
	}
	return g.size(dt, parts, int64(rows)), nil
}

// Room returns the bytes that an allocator takes for an Arrow buffer of n bytes: a
// Pool rounds them up, of others it is not known.
func Room(mem memory.Allocator, n int64) int64 {
	if r, ok := mem.(rounding); ok && n > 0 {
		return r.room(n)
	}
	return n
}

// rounding is an allocator that takes more than it is asked for.
type rounding interface{ room(n int64) int64 }

// room implements rounding.
func (*Pool) room(n int64) int64 {
	n = (n + alignment - 1) / alignment * alignment // as Arrow's buffers grow
	if n > 1<<largestClass {
		return n + alignment
	}
	_, room, _ := class(int(n))
	return int64(room)
}

// room implements rounding.
func (p *Poison) room(n int64) int64 { return Room(p.under, n) }

// room is Room of the gathering's allocator.
func (g *gathering) room(n int64) int64 { return Room(g.mem, n) }

// size returns what column takes for the same arguments.
func (g *gathering) size(dt arrow.DataType, parts []part, rows int64) int64 {
	if dt.ID() == arrow.NULL {
		return 0
	}
	bytes := int64(0)
	for _, p := range parts {
		if !g.values && p.nullness() != noNulls {
			bytes = g.room(bitutil.BytesForBits(rows))
			break
		}
	}
	switch dt := dt.(type) {
	case *arrow.StructType:
		for i, field := range dt.Fields() {
			bytes += g.size(field.Type, fieldParts(parts, i), rows)
		}
		return bytes
	case *arrow.FixedSizeListType:
		inner := make([]part, len(parts))
		for i, p := range parts {
			inner[i] = g.itemsOf(p, int(dt.Len()))
		}
		bytes += g.size(dt.Elem(), inner, rows*int64(dt.Len()))
		g.recycle(inner)
		return bytes
	case *arrow.ListType, *arrow.MapType:
		return bytes + listSize[int32](g, dt.(arrow.ListLikeType).Elem(), parts, rows)
	case *arrow.LargeListType:
		return bytes + listSize[int64](g, dt.Elem(), parts, rows)
	case *arrow.StringType, *arrow.BinaryType:
		return bytes + g.room((rows+1)*int64(widthOf[int32]())) + g.room(itemCount[int32](parts))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return bytes + g.room((rows+1)*int64(widthOf[int64]())) + g.room(itemCount[int64](parts))
	case *arrow.BooleanType:
		return bytes + g.room(bitutil.BytesForBits(rows))
	case *arrow.DictionaryType:
		return bytes + g.room(rows*int64(dt.IndexType.(arrow.FixedWidthDataType).Bytes()))
	default:
		return bytes + g.room(rows*int64(dt.(arrow.FixedWidthDataType).Bytes()))
	}
}

// itemCount counts the items of the lists, or the bytes of the texts, that parts
// select.
func itemCount[O int32 | int64](parts []part) int64 {
	items := int64(0)
	for _, p := range parts {
		if p.data == nil {
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

// listSize returns what offsets and items of lists take.
func listSize[O int32 | int64](g *gathering, elem arrow.DataType, parts []part, rows int64) int64 {
	bytes := g.room((rows + 1) * int64(widthOf[O]()))
	items := itemCount[O](parts)
	if width, ok := plainWidth(elem); ok {
		bytes += g.room(items * width)
		if !g.values && mayBeNull(parts) {
			bytes += g.room(bitutil.BytesForBits(items))
		}
		return bytes
	}
	inner := make([]part, 0, len(parts))
	for _, p := range parts {
		if found := itemSpans[O](g, p); found.rows > 0 {
			items := p.data.Children()[0]
			inner = append(inner, part{data: items, base: items.Offset(), selection: found})
		}
	}
	bytes += g.size(elem, inner, items)
	g.recycle(inner)
	return bytes
}

// plainWidth returns the width of a type whose values lie in one buffer of whole
// bytes.
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

// mayBeNull says whether an item of the lists may be null.
func mayBeNull(parts []part) bool {
	for _, p := range parts {
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

// itemSpans returns the items of the lists that a part selects, as spans.
func itemSpans[O int32 | int64](g *gathering, p part) *selection {
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
