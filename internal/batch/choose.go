package batch

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// minSegmentRun is the minimum mean length of runs of rows of one source for which each run is
// gathered as a segment.
const minSegmentRun = 16

// Choose returns an array of type dt whose row i is row at[i] of sources[which[i]]. Memory comes
// from mem. It supports the same types as Gather, and returns the same errors.
func Choose(dt arrow.DataType, sources []arrow.Array, which, at []int32, mem memory.Allocator) (arrow.Array, error) {
	c, err := NewChoice(len(sources), which, at, mem)
	if err != nil {
		return nil, err
	}
	return c.Column(dt, sources)
}

// Choice selects rows of several sources, for any number of columns: row i is row
// at[i] of source which[i]. It is not safe for concurrent use.
type Choice struct {
	mem       memory.Allocator
	which, at []int32
	highest   []int32 // by source: the highest selected row; -1 if no row is selected
	runs      int     // number of maximal runs of rows of one source
	// indices are the selected rows, grouped by source; the rows of source i are
	// indices[ends[i]:ends[i+1]]. order[i] is the position in indices of row i of the result.
	// groupBySource sets all three, which are nil before.
	ends, indices, order []int32
}

// NewChoice makes a choice among a number of sources. The caller must not modify
// which and at afterwards.
func NewChoice(sources int, which, at []int32, mem memory.Allocator) (*Choice, error) {
	if len(which) != len(at) {
		return nil, fault.New(fault.Internal, "%d sources for %d rows", len(which), len(at))
	}
	c := &Choice{mem: mem, which: which, at: at, highest: make([]int32, sources)}
	for i := range c.highest {
		c.highest[i] = -1
	}
	for i, w := range which {
		if int(uint32(w)) >= sources || at[i] < 0 {
			return nil, fault.New(fault.Internal, "row %d of source %d of %d cannot be chosen", at[i], w, sources)
		}
		c.highest[w] = max(c.highest[w], at[i])
		if i == 0 || w != which[i-1] {
			c.runs++
		}
	}
	return c, nil
}

// Size returns an upper bound of the bytes that Column allocates.
func (c *Choice) Size(dt arrow.DataType, sources []arrow.Array) (int64, error) {
	g := NewGatherer(c.mem)
	defer g.Release()
	if width, ok := c.width(dt); ok {
		rows := int64(len(c.at))
		return g.allocatedSize(rows*width) + g.allocatedSize(bitutil.BytesForBits(rows)), nil
	}
	if spans, width, ok := c.spanSources(dt, sources); ok {
		return c.spansSize(spans, width), nil
	}
	bytes, err := g.Size(dt, c.segments(sources))
	if c.groupsBySource() {
		bytes *= 2
	}
	return bytes, err
}

// Column returns one column of the result, given this column of all sources.
func (c *Choice) Column(dt arrow.DataType, sources []arrow.Array) (arrow.Array, error) {
	for i, s := range sources {
		if int(c.highest[i]) >= s.Len() {
			return nil, fault.New(fault.Internal, "row %d is outside of an array of %d rows", c.highest[i], s.Len())
		}
		if have := s.DataType(); !arrow.TypeEqual(dt, have) && !arrow.TypeEqual(dt, ValueType(have)) {
			return nil, fault.New(fault.Internal, "rows of type %s cannot be gathered as %s", s.DataType(), dt)
		}
	}
	if width, ok := c.width(dt); ok {
		return c.fixed(dt, int(width), sources), nil
	}
	if spans, width, ok := c.spanSources(dt, sources); ok {
		return c.chosenSpans(dt, sources, spans, width)
	}
	first, err := Gather(dt, c.segments(sources), c.mem)
	if err != nil || !c.groupsBySource() {
		return first, err
	}
	defer first.Release()
	return Gather(dt, []Segment{{Values: first, Indices: c.order}}, c.mem)
}

// groupsBySource reports whether runs are short. If so, rows that spanSources does not support are
// gathered source by source and then put into order: two copies cost less than many short runs.
func (c *Choice) groupsBySource() bool {
	return c.runs*minSegmentRun > len(c.which) && c.runs > len(c.highest)
}

// segments returns a segment for each run of rows of one source, or one for each source if the rows
// are grouped by source.
func (c *Choice) segments(sources []arrow.Array) []Segment {
	if c.groupsBySource() {
		c.groupBySource()
		segments := make([]Segment, len(sources))
		for i, s := range sources {
			segments[i] = Segment{Values: s, Indices: c.indices[c.ends[i]:c.ends[i+1]]}
		}
		return segments
	}
	segments := make([]Segment, 0, c.runs)
	for from := 0; from < len(c.which); {
		to := from + 1
		for to < len(c.which) && c.which[to] == c.which[from] {
			to++
		}
		segments = append(segments, Segment{Values: sources[c.which[from]], Indices: c.at[from:to]})
		from = to
	}
	return segments
}

// groupBySource sets ends, indices and order.
func (c *Choice) groupBySource() {
	if c.ends != nil {
		return
	}
	c.ends = make([]int32, len(c.highest)+1)
	for _, w := range c.which {
		c.ends[w+1]++
	}
	for i := range c.highest {
		c.ends[i+1] += c.ends[i]
	}
	next := slices.Clone(c.ends)
	c.indices, c.order = make([]int32, len(c.at)), make([]int32, len(c.at))
	for i, w := range c.which {
		c.indices[next[w]], c.order[i] = c.at[i], next[w]
		next[w]++
	}
}

// width returns the width of a type whose values the method fixed copies one by one. It returns
// false for other types, and if runs are long, because gathering is faster for long runs.
func (c *Choice) width(dt arrow.DataType) (int64, bool) {
	width, ok := plainWidth(dt)
	switch width {
	case 1, 2, 4, 8, 16:
		return width, ok && c.runs*minSegmentRun > len(c.which)
	}
	return 0, false
}

// fixed chooses the values of a fixed-width type.
func (c *Choice) fixed(dt arrow.DataType, width int, sources []arrow.Array) arrow.Array {
	g := gathering{mem: c.mem}
	defer g.close()
	rows := len(c.at)
	validity := c.validity(&g, sources)
	out := g.buffer(rows * width)
	switch b := out.Bytes(); width {
	case 1:
		choose(view[uint8](b), c, sources)
	case 2:
		choose(view[uint16](b), c, sources)
	case 4:
		choose(view[uint32](b), c, sources)
	case 8:
		choose(view[uint64](b), c, sources)
	default:
		choose(view[[16]byte](b), c, sources)
	}
	data := array.NewData(dt, rows, []*memory.Buffer{validity.Buffer, out}, nil, validity.nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// choose copies the chosen values. It is the hot loop of a shuffle.
func choose[T any](out []T, c *Choice, sources []arrow.Array) {
	values := make([][]T, len(sources))
	nullable := false
	for i, s := range sources {
		if s.Len() > 0 && s.Data().Buffers()[1] != nil { // all-null arrays may have no values
			values[i] = view[T](s.Data().Buffers()[1].Bytes())[s.Data().Offset():]
		}
		nullable = nullable || s.NullN() > 0
	}
	if !nullable {
		for i, w := range c.which {
			out[i] = values[w][c.at[i]]
		}
		return
	}
	var zero T // bytes under nulls may be left from another stream that used the same pooled memory
	for i, w := range c.which {
		out[i] = zero
		if sources[w].IsValid(int(c.at[i])) {
			out[i] = values[w][c.at[i]]
		}
	}
}

// validity chooses validity bits. The buffer is nil if no row is null.
func (c *Choice) validity(g *gathering, sources []arrow.Array) bitmap {
	if !slices.ContainsFunc(sources, func(s arrow.Array) bool { return s.NullN() > 0 }) {
		return bitmap{}
	}
	out := g.zeroed(int(bitutil.BytesForBits(int64(len(c.at)))))
	nulls := 0
	for i, w := range c.which {
		if sources[w].IsValid(int(c.at[i])) {
			bitutil.SetBit(out.Bytes(), i)
		} else {
			nulls++
		}
	}
	if nulls == 0 {
		return bitmap{}
	}
	return bitmap{out, nulls}
}
