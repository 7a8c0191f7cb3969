package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Segment is a run of output rows that come from one source.
type Segment struct {
	Values  arrow.Array // the source; nil stands for nothing but nulls
	Indices []int32     // rows of Values, each of them in range; nil: the rows [From, From+Rows)
	From    int         // first row, where Indices is nil
	Rows    int         // number of rows, where Indices is nil
}

// Len returns how many rows the segment has.
func (s Segment) Len() int {
	if s.Indices != nil {
		return len(s.Indices)
	}
	return s.Rows
}

// Row returns which row of Values the segment's row number i is.
func (s Segment) Row(i int) int32 {
	if s.Indices != nil {
		return s.Indices[i]
	}
	return int32(s.From + i)
}

// remedyBatch is what helps when one batch would be too large for Arrow.
const remedyBatch = "ask for a smaller batch_rows"

// Gather returns one array of type dt that holds the segments' rows in order.
// Its buffers come from mem, or from the Go heap if that is nil, are aligned to
// 64 bytes, and are shared with no source. It takes every type but
// dictionaries, views, unions, run-end encodings and extensions, nested to any
// depth; a validity buffer stands only where there are nulls. It fails with
// Exhausted when 32-bit offsets do not reach, and with Internal when the caller
// broke a rule: a source of another type, a row out of range.
func Gather(dt arrow.DataType, segments []Segment, mem memory.Allocator) (arrow.Array, error) {
	g := NewGatherer(mem)
	defer g.Release()
	return g.Gather(dt, segments)
}

// Gatherer gathers the columns of one batch. Of columns that select the same
// rows, by the same Indices, the range is found once, and so are the validity
// bits of those whose only null is row 0. It is not safe for concurrent use.
type Gatherer struct {
	gathering
}

// indexed names indices by where they lie: they do not change while a
// Gatherer lives.
type indexed struct {
	first *int32
	rows  int
}

// NewGatherer makes a Gatherer whose buffers come from mem, or from the Go
// heap if that is nil. The caller releases it; the arrays live on.
func NewGatherer(mem memory.Allocator) *Gatherer {
	return &Gatherer{gathering{mem: mem, remedy: remedyBatch, known: map[indexed]*selection{}}}
}

// Gather is the function Gather. The segments' Indices must stay as they are
// until Release.
func (g *Gatherer) Gather(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	return g.one(dt, segments)
}

// Release gives back what the Gatherer itself holds.
func (g *Gatherer) Release() { g.close() }

// selection returns what is known of a segment's rows.
func (g *gathering) selection(s Segment) *selection {
	if len(s.Indices) == 0 || g.known == nil {
		return newSelection(s)
	}
	at := indexed{&s.Indices[0], len(s.Indices)}
	found, ok := g.known[at]
	if !ok {
		found = newSelection(s)
		g.known[at] = found
	}
	return found
}

// newSelection finds out about a segment's rows.
func newSelection(s Segment) *selection {
	if s.Indices == nil {
		return &selection{spans: []span{{s.From, s.Rows}}, rows: s.Rows, low: s.From, high: s.From + s.Rows - 1}
	}
	low, high := extent(s.Indices)
	return &selection{indices: s.Indices, rows: len(s.Indices), low: low, high: high, first: low == 0}
}

// span is a run of consecutive rows.
type span struct{ from, rows int }

// selection says which rows of a source are wanted: those at indices, or
// those of the spans, never both.
type selection struct {
	indices   []int32
	first     bool // whether index 0 is among indices
	spans     []span
	rows      int // in all
	low, high int // the lowest and the highest row; of a segment's alone
}

// part is a selection of one source, for one column or one of its children.
// Row i of the selection is row base+i of data's buffers, whatever data's own
// offset, so that a struct's children share their parent's selection. Parts
// have at least one row.
type part struct {
	data arrow.ArrayData // nil: all rows are null
	base int
	*selection
}

// gathering is one call of Gather, Filter, Concat or WithFirst. It owns all
// that it makes until close; what is returned was retained before.
type gathering struct {
	mem          memory.Allocator // nil: plain memory of the Go heap
	dictionaries bool             // whether dictionary columns may pass: their indices are gathered
	remedy       string           // when offsets overflow
	owned        []interface{ Release() }
	spare        [][]span
	known        map[indexed]*selection // by the indices that made them; nil: not kept
	values       bool                   // sizes are of values alone, without validity
	last         []referrer             // what lastBitmap follows from
	lastBitmap   bitmap
}

func (g *gathering) close() {
	for _, x := range g.owned {
		x.Release()
	}
	g.owned = nil
}

// array gathers one top-level array, and closes.
func (g *gathering) array(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	defer g.close()
	return g.one(dt, segments)
}

// one gathers one top-level array.
func (g *gathering) one(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	parts, rows, err := g.parts(dt, segments)
	if err != nil {
		return nil, err
	}
	column, err := g.column(dt, parts, rows)
	if err != nil {
		return nil, err
	}
	return array.MakeFromData(column), nil
}

// parts checks the segments against dt and against their sources.
func (g *gathering) parts(dt arrow.DataType, segments []Segment) ([]part, int, error) {
	if err := g.check(dt); err != nil {
		return nil, 0, err
	}
	parts, rows := make([]part, 0, len(segments)), 0
	for _, s := range segments {
		p, err := g.part(dt, s)
		if err != nil {
			return nil, 0, err
		}
		if p.rows > 0 {
			parts = append(parts, p)
			rows += p.rows
		}
	}
	return parts, rows, nil
}

func (g *gathering) part(dt arrow.DataType, s Segment) (part, error) {
	if s.Rows < 0 {
		return part{}, fault.New(fault.Internal, "%d rows are asked for", s.Rows)
	}
	sel := g.selection(s)
	if s.Values == nil {
		return part{selection: sel}, nil
	}
	if !arrow.TypeEqual(dt, s.Values.DataType()) {
		return part{}, fault.New(fault.Internal, "rows of type %s cannot be gathered as %s", s.Values.DataType(), dt)
	}
	if sel.rows > 0 && (sel.low < 0 || sel.high >= s.Values.Len()) {
		return part{}, fault.New(fault.Internal, "rows %d to %d of %d are asked for", sel.low, sel.high, s.Values.Len())
	}
	return part{data: s.Values.Data(), base: s.Values.Data().Offset(), selection: sel}, nil
}

// extent returns the lowest and the highest index. One that is negative
// counts as high, so it is out of every range.
func extent(indices []int32) (low, high int) {
	lowest, highest := uint32(math.MaxUint32), uint32(0)
	for _, i := range indices {
		lowest, highest = min(lowest, uint32(i)), max(highest, uint32(i))
	}
	return int(lowest), int(highest)
}

// check refuses the types that have no loop here.
func (g *gathering) check(dt arrow.DataType) error {
	switch dt := dt.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.MapType:
		return g.check(dt.(arrow.ListLikeType).Elem())
	case *arrow.StructType:
		for _, field := range dt.Fields() {
			if err := g.check(field.Type); err != nil {
				return err
			}
		}
		return nil
	case *arrow.NullType, *arrow.StringType, *arrow.BinaryType, *arrow.LargeStringType, *arrow.LargeBinaryType:
		return nil
	case *arrow.DictionaryType:
		if g.dictionaries {
			return nil
		}
	case arrow.ExtensionType:
	case arrow.FixedWidthDataType:
		return nil
	}
	return fault.New(fault.Internal, "columns of type %s cannot be gathered", dt)
}

// column gathers one column or child. The data belongs to g.
func (g *gathering) column(dt arrow.DataType, parts []part, rows int) (*array.Data, error) {
	out := array.NewData(dt, rows, []*memory.Buffer{nil}, nil, rows, 0)
	g.owned = append(g.owned, out)
	if dt.ID() == arrow.NULL {
		return out, nil
	}
	validity := g.validity(parts, rows)
	buffers, children, err := g.contents(dt, parts, rows, validity.Buffer)
	if err != nil {
		return nil, err
	}
	out.Reset(dt, rows, append([]*memory.Buffer{validity.Buffer}, buffers...), children, validity.nulls, 0)
	if dt.ID() == arrow.DICTIONARY {
		dictionary, err := shared(parts)
		if err != nil {
			return nil, err
		}
		out.SetDictionary(dictionary)
	}
	return out, nil
}

// contents gathers what a column of type dt has beside its validity.
func (g *gathering) contents(dt arrow.DataType, parts []part, rows int, validity *memory.Buffer) ([]*memory.Buffer, []arrow.ArrayData, error) {
	switch dt := dt.(type) {
	case *arrow.StructType:
		children, err := g.fields(dt, parts, rows)
		return nil, children, err
	case *arrow.FixedSizeListType:
		children, err := g.items(dt, parts, rows)
		return nil, children, err
	case *arrow.ListType, *arrow.MapType:
		return lists[int32](g, dt.(arrow.ListLikeType), parts, rows)
	case *arrow.LargeListType:
		return lists[int64](g, dt, parts, rows)
	case *arrow.StringType, *arrow.BinaryType:
		buffers, err := texts[int32](g, parts, rows)
		return buffers, nil, err
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		buffers, err := texts[int64](g, parts, rows)
		return buffers, nil, err
	case *arrow.BooleanType:
		return []*memory.Buffer{g.booleans(parts, rows, validity)}, nil, nil
	case *arrow.DictionaryType:
		width := dt.IndexType.(arrow.FixedWidthDataType).Bytes()
		return []*memory.Buffer{g.fixed(width, parts, rows, validity)}, nil, nil
	default:
		width := dt.(arrow.FixedWidthDataType).Bytes()
		return []*memory.Buffer{g.fixed(width, parts, rows, validity)}, nil, nil
	}
}

// fields gathers the children of structs.
func (g *gathering) fields(dt *arrow.StructType, parts []part, rows int) ([]arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, dt.NumFields())
	for i, field := range dt.Fields() {
		child, err := g.column(field.Type, fieldParts(parts, i), rows)
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	return children, nil
}

// fieldParts returns what parts of structs select of field i.
func fieldParts(parts []part, i int) []part {
	inner := make([]part, len(parts))
	for k, p := range parts {
		inner[k] = part{selection: p.selection}
		if p.data != nil {
			inner[k].data = p.data.Children()[i]
			inner[k].base = p.base + inner[k].data.Offset()
		}
	}
	return inner
}

// shared returns the one dictionary that all parts of a column have. It is
// kept as it is: nothing here makes a dictionary.
func shared(parts []part) (*array.Data, error) {
	var dictionary *array.Data
	for _, p := range parts {
		if p.data == nil {
			continue
		}
		own, _ := p.data.Dictionary().(*array.Data)
		if dictionary != nil && own != dictionary {
			return nil, fault.New(fault.Internal, "columns with different dictionaries cannot become one")
		}
		dictionary = own
	}
	if dictionary == nil {
		return nil, fault.New(fault.Internal, "a dictionary column of no source has no dictionary")
	}
	return dictionary, nil
}
