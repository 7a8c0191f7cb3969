package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Segment is a run of output rows from one source.
type Segment struct {
	Values  arrow.Array // the source; nil: all rows are null
	Indices []int32     // rows of Values, all in range; nil: the rows [From, From+Rows)
	From    int         // first row, if Indices is nil
	Rows    int         // number of rows, if Indices is nil
}

// Len returns the number of rows.
func (s Segment) Len() int {
	if s.Indices != nil {
		return len(s.Indices)
	}
	return s.Rows
}

// Row returns the row of Values that row i of the segment is.
func (s Segment) Row(i int) int32 {
	if s.Indices != nil {
		return s.Indices[i]
	}
	return int32(s.From + i)
}

// remedyBatch is the remedy for a batch that is too large for Arrow.
const remedyBatch = "ask for a smaller batch_rows"

// Gather returns one array of type dt with the segments' rows in order. Columns of texts and binary
// values may be coded in the sources, and so may fields of structs; they are not coded in the
// result. The result's buffers come from mem, or from the Go heap if mem is nil. They are aligned
// to 64 bytes, and not shared with any source. A validity buffer is present only if there are
// nulls. Gather supports every type, nested to any depth, except dictionaries, views, unions,
// run-end encodings and extensions of these. It fails with Exhausted if 32-bit offsets overflow,
// and with Internal if a source has another type or a row is out of range.
func Gather(dt arrow.DataType, segments []Segment, mem memory.Allocator) (arrow.Array, error) {
	g := NewGatherer(mem)
	defer g.Release()
	return g.Gather(dt, segments)
}

// Gatherer gathers the columns of one batch. For columns that select rows by the same Indices, the
// range of these is checked once, and the validity bits of sources whose only null is row 0 are
// shared. It is not safe for concurrent use.
type Gatherer struct {
	gathering
}

// indicesKey identifies indices by their address, which is possible because they do not change
// during the life of a Gatherer.
type indicesKey struct {
	first *int32
	rows  int
}

// NewGatherer makes a Gatherer whose buffers come from mem, or from the Go heap if
// mem is nil. The caller releases it; gathered arrays outlive it.
func NewGatherer(mem memory.Allocator) *Gatherer {
	return &Gatherer{gathering{mem: mem, remedy: remedyBatch, known: map[indicesKey]*selection{}}}
}

// Gather is like the function Gather. The caller must not modify the segments'
// Indices until Release.
func (g *Gatherer) Gather(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	return g.one(dt, segments)
}

// Release releases the Gatherer's own references. It is idempotent. The Gatherer can be used again,
// and does not check the ranges of the same Indices again.
func (g *Gatherer) Release() {
	g.close()
	g.last, g.lastBitmap = nil, bitmap{}
	g.defers, g.deferred = false, nil
}

// selection returns the selection of a segment's rows.
func (g *gathering) selection(s Segment) *selection {
	if len(s.Indices) == 0 || g.known == nil {
		return newSelection(s)
	}
	at := indicesKey{&s.Indices[0], len(s.Indices)}
	found, ok := g.known[at]
	if !ok {
		found = newSelection(s)
		g.known[at] = found
	}
	return found
}

// newSelection makes the selection of a segment's rows.
func newSelection(s Segment) *selection {
	if s.Indices == nil {
		return &selection{spans: []span{{s.From, s.Rows}}, rows: s.Rows, low: s.From, high: s.From + s.Rows - 1}
	}
	low, high := extent(s.Indices)
	return &selection{indices: s.Indices, rows: len(s.Indices), low: low, high: high, first: low == 0}
}

// span is a run of consecutive rows.
type span struct{ from, rows int }

// selection is the set of rows selected from a source: either indices or spans,
// never both.
type selection struct {
	indices   []int32
	first     bool // whether indices contain 0
	spans     []span
	rows      int // total
	low, high int // the lowest and highest row; set for segments only
}

// input is a selection of one source, for one column or one of its children.
// Row i of the selection is row base+i of data's buffers, regardless of data's
// own offset, so that a struct's children share their parent's selection. Inputs
// have at least one row.
type input struct {
	data arrow.ArrayData // nil: all rows are null
	base int
	*selection
}

// gathering is the state of one call of Gather, Filter, Concat or WithFirst. It
// owns everything it makes until close; results have references of their own.
type gathering struct {
	mem          memory.Allocator // nil: plain memory of the Go heap
	dictionaries bool             // whether dictionary columns are supported, by gathering their indices
	remedy       string           // the remedy in the error for offsets that overflow
	owned        []interface{ Release() }
	freeSpans    [][]span
	known        map[indicesKey]*selection // selections by the indices of which they were made; nil: selections are not cached
	valuesOnly   bool                      // whether sizes exclude validity
	last         []validityKey             // the key of lastBitmap
	lastBitmap   bitmap
	defers       bool // whether copies of values are deferred
	deferred     []deferredCopy
}

func (g *gathering) close() {
	for _, x := range g.owned {
		x.Release()
	}
	g.owned = nil
}

// array gathers one top-level array and closes g.
func (g *gathering) array(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	defer g.close()
	return g.one(dt, segments)
}

// one gathers one top-level array.
func (g *gathering) one(dt arrow.DataType, segments []Segment) (arrow.Array, error) {
	inputs, rows, err := g.inputs(dt, segments)
	if err != nil {
		return nil, err
	}
	column, err := g.column(dt, inputs, rows)
	if err != nil {
		return nil, err
	}
	return array.MakeFromData(column), nil
}

// inputs checks the segments against dt and their sources, and returns an input for each segment
// that has rows.
func (g *gathering) inputs(dt arrow.DataType, segments []Segment) ([]input, int, error) {
	if err := g.check(dt); err != nil {
		return nil, 0, err
	}
	inputs, rows := make([]input, 0, len(segments)), 0
	for _, s := range segments {
		p, err := g.input(dt, s)
		if err != nil {
			return nil, 0, err
		}
		if p.rows > 0 {
			inputs = append(inputs, p)
			rows += p.rows
		}
	}
	return inputs, rows, nil
}

func (g *gathering) input(dt arrow.DataType, s Segment) (input, error) {
	if s.Rows < 0 {
		return input{}, fault.New(fault.Internal, "a segment cannot have %d rows", s.Rows)
	}
	sel := g.selection(s)
	if s.Values == nil {
		return input{selection: sel}, nil
	}
	if have := s.Values.DataType(); !arrow.TypeEqual(dt, have) && !arrow.TypeEqual(dt, ValueType(have)) {
		return input{}, fault.New(fault.Internal, "rows of type %s cannot be gathered as %s", s.Values.DataType(), dt)
	}
	if sel.rows > 0 && (sel.low < 0 || sel.high >= s.Values.Len()) {
		return input{}, fault.New(fault.Internal, "rows %d to %d are outside of an array of %d rows", sel.low, sel.high, s.Values.Len())
	}
	return input{data: s.Values.Data(), base: s.Values.Data().Offset(), selection: sel}, nil
}

// extent returns the lowest and the highest index. A negative index counts as a
// very high one, so it is out of every range.
func extent(indices []int32) (low, high int) {
	lowest, highest := uint32(math.MaxUint32), uint32(0)
	for _, i := range indices {
		lowest, highest = min(lowest, uint32(i)), max(highest, uint32(i))
	}
	return int(lowest), int(highest)
}

// check returns an error for a type that is not supported.
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
		return g.check(dt.StorageType())
	case arrow.FixedWidthDataType:
		return nil
	}
	return fault.New(fault.Internal, "columns of type %s cannot be gathered", dt)
}

// column gathers one column or child. The data belongs to g.
func (g *gathering) column(dt arrow.DataType, inputs []input, rows int) (*array.Data, error) {
	out := array.NewData(dt, rows, []*memory.Buffer{nil}, nil, rows, 0)
	g.owned = append(g.owned, out)
	if dt.ID() == arrow.NULL {
		return out, nil
	}
	validity := g.validity(inputs, rows)
	buffers, children, err := g.contents(dt, inputs, rows, validity.Buffer)
	if err != nil {
		return nil, err
	}
	out.Reset(dt, rows, append([]*memory.Buffer{validity.Buffer}, buffers...), children, validity.nulls, 0)
	if dt.ID() == arrow.DICTIONARY {
		dictionary, err := shared(inputs)
		if err != nil {
			return nil, err
		}
		out.SetDictionary(dictionary)
	}
	return out, nil
}

// contents gathers the buffers and children of a column of type dt, except for its
// validity.
func (g *gathering) contents(dt arrow.DataType, inputs []input, rows int, validity *memory.Buffer) ([]*memory.Buffer, []arrow.ArrayData, error) {
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return g.contents(dt.StorageType(), inputs, rows, validity)
	case *arrow.StructType:
		children, err := g.fields(dt, inputs, rows)
		return nil, children, err
	case *arrow.FixedSizeListType:
		children, err := g.items(dt, inputs, rows)
		return nil, children, err
	case *arrow.ListType, *arrow.MapType:
		return lists[int32](g, dt.(arrow.ListLikeType), inputs, rows)
	case *arrow.LargeListType:
		return lists[int64](g, dt, inputs, rows)
	case *arrow.StringType, *arrow.BinaryType:
		buffers, err := texts[int32](g, inputs, rows)
		return buffers, nil, err
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		buffers, err := texts[int64](g, inputs, rows)
		return buffers, nil, err
	case *arrow.BooleanType:
		return []*memory.Buffer{g.booleans(inputs, rows, validity)}, nil, nil
	case *arrow.DictionaryType:
		width := dt.IndexType.(arrow.FixedWidthDataType).Bytes()
		return []*memory.Buffer{g.fixed(width, inputs, rows, validity)}, nil, nil
	default:
		width := dt.(arrow.FixedWidthDataType).Bytes()
		return []*memory.Buffer{g.fixed(width, inputs, rows, validity)}, nil, nil
	}
}

// fields gathers the children of structs.
func (g *gathering) fields(dt *arrow.StructType, inputs []input, rows int) ([]arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, dt.NumFields())
	for i, field := range dt.Fields() {
		child, err := g.column(field.Type, fieldInputs(inputs, i), rows)
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	return children, nil
}

// fieldInputs returns the inputs of field i, given the inputs of the structs.
func fieldInputs(inputs []input, i int) []input {
	inner := make([]input, len(inputs))
	for k, p := range inputs {
		inner[k] = input{selection: p.selection}
		if p.data != nil {
			inner[k].data = p.data.Children()[i]
			inner[k].base = p.base + inner[k].data.Offset()
		}
	}
	return inner
}

// shared returns the dictionary that all inputs of a column share.
func shared(inputs []input) (*array.Data, error) {
	var dictionary *array.Data
	for _, p := range inputs {
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
		return nil, fault.New(fault.Internal, "a dictionary column needs a source with a dictionary")
	}
	return dictionary, nil
}
