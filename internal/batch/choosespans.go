package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// spanSource is a source whose rows are spans of bytes: texts, or lists of items of a fixed width.
type spanSource struct {
	offsets []int32 // in items
	items   []byte
	of      arrow.Array // nil: no row is null
}

// span returns the range of items of a row, which is empty for a null.
func (s *spanSource) span(row int32) (from, to int) {
	if s.of != nil && s.of.IsNull(int(row)) {
		return 0, 0
	}
	return int(s.offsets[row]), int(s.offsets[row+1])
}

// spanSources returns the sources of a column and the width of its items. It returns false unless
// the rows are chosen one by one, which is the case if they are spans of bytes and runs are short.
func (c *Choice) spanSources(dt arrow.DataType, sources []arrow.Array) (spans []spanSource, width int, ok bool) {
	if c.runs*minSegmentRun <= len(c.which) {
		return nil, 0, false
	}
	switch dt := dt.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		width = 1
	case *arrow.ListType:
		itemWidth, ok := plainWidth(dt.Elem())
		if !ok || itemWidth == 0 {
			return nil, 0, false
		}
		width = int(itemWidth)
	default:
		return nil, 0, false
	}
	spans = make([]spanSource, len(sources))
	for i, s := range sources {
		if isCoded(s.Data()) {
			return nil, 0, false
		}
		if s.Len() == 0 {
			continue // an empty array may have no buffers
		}
		items, ok := itemBytes(s.Data(), width)
		if !ok {
			return nil, 0, false
		}
		spans[i] = spanSource{offsets: view[int32](bytesOf(s.Data().Buffers()[1]))[s.Data().Offset():], items: items}
		if s.NullN() > 0 {
			spans[i].of = s
		}
	}
	return spans, width, true
}

// itemBytes returns the bytes of texts, or of the items of lists; false if some items are null.
func itemBytes(data arrow.ArrayData, width int) ([]byte, bool) {
	if len(data.Children()) == 0 {
		return bytesOf(data.Buffers()[2]), true
	}
	items := data.Children()[0]
	if items.Len() == 0 {
		return nil, true
	}
	return bytesOf(items.Buffers()[1])[items.Offset()*width:], items.NullN() == 0
}

// spansSize returns the bytes that chosenSpans allocates.
func (c *Choice) spansSize(spans []spanSource, width int) int64 {
	g, items, nullable := gathering{mem: c.mem}, int64(0), false
	for i, w := range c.which {
		from, to := spans[w].span(c.at[i])
		items += int64(to - from)
	}
	for i := range spans {
		nullable = nullable || spans[i].of != nil
	}
	rows := int64(len(c.at))
	bytes := g.allocatedSize((rows+1)*int64(arrow.Int32SizeBytes)) + g.allocatedSize(items*int64(width))
	if nullable {
		bytes += g.allocatedSize(bitutil.BytesForBits(rows))
	}
	return bytes
}

// chosenSpans chooses rows that are spans, and copies each span once.
func (c *Choice) chosenSpans(dt arrow.DataType, sources []arrow.Array, spans []spanSource, width int) (arrow.Array, error) {
	g := gathering{mem: c.mem, remedy: remedyBatch}
	defer g.close()
	rows := len(c.at)
	validity := c.validity(&g, sources)
	ends := g.buffer((rows + 1) * arrow.Int32SizeBytes)
	offsets, total := view[int32](ends.Bytes()), 0
	offsets[0] = 0
	for i, w := range c.which {
		from, to := spans[w].span(c.at[i])
		total += to - from
		offsets[i+1] = int32(total)
	}
	if total > math.MaxInt32 {
		return nil, g.overflow(rows, total)
	}
	items := g.buffer(total * width)
	dst := items.Bytes()
	for i, w := range c.which {
		from, to := spans[w].span(c.at[i])
		n := copy(dst, spans[w].items[from*width:to*width])
		dst = dst[n:]
	}
	buffers, children := []*memory.Buffer{validity.Buffer, ends}, []arrow.ArrayData(nil)
	if list, ok := dt.(*arrow.ListType); ok {
		child := array.NewData(list.Elem(), total, []*memory.Buffer{nil, items}, nil, 0, 0)
		defer child.Release()
		children = []arrow.ArrayData{child}
	} else {
		buffers = append(buffers, items)
	}
	data := array.NewData(dt, rows, buffers, children, validity.nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}
