package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Lists and strings are gathered in two steps. The first step gathers the new offsets, and finds
// the runs of items or bytes to copy. The second step copies these runs into one allocation. Runs
// that are adjacent in the source are copied at once.

// offsets gathers the offsets of lists or strings. It also returns the inputs for their items. For
// each input that has items, such an input has the spans of the items, but still the data and base
// of the list or string. For coded strings, the input has the selected rows instead of spans, and
// their number of bytes as its number of rows.
func offsets[O int32 | int64](g *gathering, inputs []input, rows int) (*memory.Buffer, []input, error) {
	out := g.buffer((rows + 1) * widthOf[O]())
	dst := view[O](out.Bytes())
	dst[0] = 0
	dst = dst[1:]
	inner, total := make([]input, 0, len(inputs)), 0
	for _, p := range inputs {
		ends := dst[:p.rows]
		dst = dst[p.rows:]
		if p.data == nil {
			for i := range ends {
				ends[i] = O(total)
			}
			continue
		}
		if isCoded(p.data) {
			bytes := followCodes(ends, total, p)
			total += bytes
			inner = append(inner, input{data: p.data, base: p.base, selection: &selection{indices: p.indices, spans: p.spans, rows: bytes}})
			continue
		}
		src := view[O](p.data.Buffers()[1].Bytes())[p.base:]
		found := &selection{spans: g.spans(max(len(p.indices), len(p.spans)))}
		if p.indices != nil {
			followIndices(ends, total, src, p.indices, found)
		} else {
			followSpans(ends, total, src, p.spans, found)
		}
		total += found.rows
		if found.rows > 0 {
			inner = append(inner, input{data: p.data, base: p.base, selection: found})
		}
	}
	if total > math.MaxInt32 && widthOf[O]() == 4 {
		return nil, nil, g.overflow(rows, total)
	}
	return out, inner, nil
}

// overflow returns the error of a column with too many list items or bytes of text.
func (g *gathering) overflow(rows, total int) error {
	return fault.New(fault.Exhausted,
		"a column of %d rows would have %d list items or bytes of text, which exceeds Arrow's 32-bit offsets", rows, total).
		WithRemedy("%s", g.remedy)
}

func rowsOf(inputs []input) int {
	rows := 0
	for _, p := range inputs {
		rows += p.rows
	}
	return rows
}

func widthOf[O int32 | int64]() int {
	if O(math.MaxInt32)+1 < 0 {
		return 4
	}
	return 8
}

// followIndices writes the end offsets of the rows at indices, starting after total
// items, and collects the spans of the items.
func followIndices[O int32 | int64](ends []O, total int, src []O, indices []int32, found *selection) {
	spans, run, sum := found.spans, span{}, total
	for i, index := range indices {
		from, to := int(src[index]), int(src[index+1])
		sum += to - from
		ends[i] = O(sum)
		switch {
		case from == run.from+run.rows:
			run.rows += to - from
		case from < to:
			if run.rows > 0 {
				spans = append(spans, run)
			}
			run = span{from, to - from}
		}
	}
	if run.rows > 0 {
		spans = append(spans, run)
	}
	found.spans, found.rows = spans, sum-total
}

// followSpans is followIndices for rows in spans, whose items are spans too.
func followSpans[O int32 | int64](ends []O, total int, src []O, wanted []span, found *selection) {
	spans, sum := found.spans, total
	for _, w := range wanted {
		from, shift := int(src[w.from]), O(sum)-src[w.from]
		for i, end := range src[w.from+1 : w.from+w.rows+1] {
			ends[i] = end + shift
		}
		ends = ends[w.rows:]
		if n := int(src[w.from+w.rows]) - from; n > 0 {
			spans = append(spans, span{from, n})
			sum += n
		}
	}
	found.spans, found.rows = spans, sum-total
}

// texts gathers the offsets and bytes of strings or binaries.
func texts[O int32 | int64](g *gathering, inputs []input, rows int) ([]*memory.Buffer, error) {
	ends, inner, err := offsets[O](g, inputs, rows)
	if err != nil {
		return nil, err
	}
	bytes := g.buffer(rowsOf(inner))
	dst := bytes.Bytes()
	for i, p := range inner {
		to := dst[:p.rows]
		dst = dst[p.rows:]
		if isCoded(p.data) {
			g.copyWhole(p.rows, func() { copyCoded(to, p) })
			inner[i].selection = &selection{} // its spans belong to the selection of the rows, and must not be recycled
			continue
		}
		g.copies(p, 1, func(p input, from int) {
			to, src := to[from:], p.data.Buffers()[2].Bytes()
			for _, s := range p.spans {
				copy(to, src[s.from:s.from+s.rows])
				to = to[s.rows:]
			}
		})
	}
	g.recycle(inner)
	return []*memory.Buffer{ends, bytes}, nil
}

// lists gathers the offsets and items of lists or maps.
func lists[O int32 | int64](g *gathering, dt arrow.ListLikeType, inputs []input, rows int) ([]*memory.Buffer, []arrow.ArrayData, error) {
	ends, inner, err := offsets[O](g, inputs, rows)
	if err != nil {
		return nil, nil, err
	}
	for i := range inner {
		inner[i].data = inner[i].data.Children()[0]
		inner[i].base = inner[i].data.Offset()
	}
	items, err := g.column(dt.Elem(), inner, rowsOf(inner))
	if err != nil {
		return nil, nil, err
	}
	g.recycle(inner)
	return []*memory.Buffer{ends}, []arrow.ArrayData{items}, nil
}

// items gathers the items of fixed-size lists.
func (g *gathering) items(dt *arrow.FixedSizeListType, inputs []input, rows int) ([]arrow.ArrayData, error) {
	n := int(dt.Len())
	inner := make([]input, len(inputs))
	for i, p := range inputs {
		inner[i] = g.itemsOf(p, n)
	}
	items, err := g.column(dt.Elem(), inner, rows*n)
	if err != nil {
		return nil, err
	}
	g.recycle(inner)
	return []arrow.ArrayData{items}, nil
}

// itemsOf returns the items of an input of lists of size n.
func (g *gathering) itemsOf(p input, n int) input {
	found := &selection{rows: p.rows * n}
	if p.data == nil {
		return input{selection: found}
	}
	found.spans = g.spans(max(len(p.indices), len(p.spans)))
	for _, index := range p.indices {
		found.spans = append(found.spans, span{int(index) * n, n})
	}
	for _, s := range p.spans {
		found.spans = append(found.spans, span{s.from * n, s.rows * n})
	}
	items := p.data.Children()[0]
	return input{data: items, base: items.Offset() + p.base*n, selection: found}
}
