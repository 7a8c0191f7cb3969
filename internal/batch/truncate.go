package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// First returns a list array with each row truncated to its first n elements. If
// no row is longer, the array itself is retained and returned; otherwise memory
// comes from mem, or from the Go heap if mem is nil. It supports lists with 32-bit
// and 64-bit offsets whose elements Gather supports. Another type, or an n below 1,
// is Internal.
func First(a arrow.Array, n int, mem memory.Allocator) (arrow.Array, error) {
	return truncate(a, func(from, to int) (int, int) { return from, min(to, from+n) }, n, mem)
}

// Last is like First, with the last n elements.
func Last(a arrow.Array, n int, mem memory.Allocator) (arrow.Array, error) {
	return truncate(a, func(from, to int) (int, int) { return max(from, to-n), to }, n, mem)
}

// truncate reduces each row's items to the range that cut returns.
func truncate(a arrow.Array, cut func(from, to int) (int, int), n int, mem memory.Allocator) (arrow.Array, error) {
	if n < 1 {
		return nil, fault.New(fault.Internal, "lists cannot be truncated to %d elements", n)
	}
	dt, ok := a.DataType().(arrow.ListLikeType)
	if !ok || dt.ID() != arrow.LIST && dt.ID() != arrow.LARGE_LIST {
		return nil, fault.New(fault.Internal, "columns of type %s cannot be truncated", a.DataType())
	}
	g := gathering{mem: mem, remedy: remedyBatch}
	defer g.close()
	if err := g.check(dt); err != nil {
		return nil, err
	}
	var out *array.Data
	var err error
	switch {
	case a.Len() == 0 || maxItems(a) <= n:
		a.Retain()
		return a, nil
	case dt.ID() == arrow.LIST:
		out, err = trimmed[int32](&g, a, cut)
	default:
		out, err = trimmed[int64](&g, a, cut)
	}
	if err != nil {
		return nil, err
	}
	return array.MakeFromData(out), nil
}

// maxItems returns the largest number of items of a row, including rows under nulls.
func maxItems(a arrow.Array) int {
	items := 0
	lists := a.(array.ListLike)
	for i := range a.Len() {
		from, to := lists.ValueOffsets(i)
		items = max(items, int(to-from))
	}
	return items
}

// trimmed gathers the range that cut returns of each valid row, and no items of null
// rows. The data belongs to g.
func trimmed[O int32 | int64](g *gathering, a arrow.Array, cut func(from, to int) (int, int)) (*array.Data, error) {
	rows, data := a.Len(), a.Data()
	src := view[O](data.Buffers()[1].Bytes())[data.Offset():]
	ends := g.buffer((rows + 1) * widthOf[O]())
	dst := view[O](ends.Bytes())
	dst[0] = 0
	found, run := &selection{}, span{}
	for i := range rows {
		from, to := int(src[i]), int(src[i+1])
		if a.IsNull(i) {
			to = from
		}
		from, to = cut(from, to)
		found.rows += to - from
		dst[i+1] = O(found.rows)
		switch {
		case from == run.from+run.rows:
			run.rows += to - from
		case from < to:
			if run.rows > 0 {
				found.spans = append(found.spans, run)
			}
			run = span{from, to - from}
		}
	}
	if run.rows > 0 {
		found.spans = append(found.spans, run)
	}
	child := data.Children()[0]
	var inner []input
	if found.rows > 0 {
		inner = []input{{data: child, base: child.Offset(), selection: found}}
	}
	items, err := g.column(a.DataType().(arrow.ListLikeType).Elem(), inner, found.rows)
	if err != nil {
		return nil, err
	}
	validity := g.whole(a)
	out := array.NewData(a.DataType(), rows, []*memory.Buffer{validity.Buffer, ends}, []arrow.ArrayData{items}, validity.nulls, 0)
	g.owned = append(g.owned, out)
	return out, nil
}

// whole returns a copy of the validity bits of an array.
func (g *gathering) whole(a arrow.Array) bitmap {
	all := &selection{spans: []span{{0, a.Len()}}, rows: a.Len()}
	return g.validity([]input{{data: a.Data(), base: a.Data().Offset(), selection: all}}, a.Len())
}

// compact returns a list array without items that no row has: items under nulls, and items before
// those of the first row or after those of the last row.
func compact(a arrow.Array, mem memory.Allocator) (arrow.Array, error) {
	if a.Len() == 0 {
		return Gather(a.DataType(), nil, mem)
	}
	g := gathering{mem: mem, remedy: remedyBatch}
	defer g.close()
	keep := func(from, to int) (int, int) { return from, to }
	trim := trimmed[int32]
	if a.DataType().ID() == arrow.LARGE_LIST {
		trim = trimmed[int64]
	}
	out, err := trim(&g, a, keep)
	if err != nil {
		return nil, err
	}
	return array.MakeFromData(out), nil
}
