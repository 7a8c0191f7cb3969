package expr

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// evaluation is the state of a call of Evaluate, reused by later calls. A set of
// rows is a bitmap: bit i of word w is row 64·w + i.
type evaluation struct {
	arrays map[string]arrow.Array // arrays by the names of their columns
	rows   int
	free   [][]uint64

	some   []int32 // of a filter for some rows: those that were not evaluated yet
	chosen bool    // whether a filter is for some rows

	mem    memory.Allocator       // for values that are not columns
	room   Room                   // for the same values; nil: they are not charged
	taken  int64                  // bytes of room
	values map[string]*knownValue // those that were computed, by their canonical texts
	err    error                  // the first error of a value
}

// chunkRows is the number of rows for which a filter computes values that are not columns at once, so
// that these values take little memory. It is a multiple of 64.
const chunkRows = 8192

// chunkBytes is the maximum of the memory for these values, unless they are those of one row, which have rowBytes.
const (
	chunkBytes = 1 << 20
	rowBytes   = 16 << 20
)

// Room is memory for the values that a filter computes. A budget.Reservation implements it.
type Room interface {
	// Grow takes bytes, and returns the error of the filter if there is no memory.
	Grow(bytes int64) error
	// Shrink returns bytes that were taken.
	Shrink(bytes int64)
}

// Evaluate returns the numbers of the batch's rows that pass, in ascending order.
// The result overwrites dst and reuses its memory. Columns are found by name; the
// batch may have more columns, and is not modified. A column that is missing or has
// another type than it was bound with is Internal. A value that cannot be computed is Invalid. Values that are computed
// take room until Evaluate returns; with a nil room, they are not charged.
func (f *Filter) Evaluate(of arrow.RecordBatch, dst []int32, room Room) ([]int32, error) {
	return f.evaluate(of, nil, false, dst[:0], room)
}

// Keep is Evaluate for some rows of the batch, whose numbers ascend. Values of other rows are not
// computed, so that they cause no errors. dst may be the same slice as rows.
func (f *Filter) Keep(of arrow.RecordBatch, rows, dst []int32, room Room) ([]int32, error) {
	return f.evaluate(of, rows, true, dst[:0], room)
}

// Computes reports whether the filter uses values that are not columns, so that rows may cause errors.
func (f *Filter) Computes() bool { return f != nil && f.computes }

// evaluate appends the rows that pass: of some rows, or of all.
func (f *Filter) evaluate(of arrow.RecordBatch, some []int32, chosen bool, dst []int32, room Room) ([]int32, error) {
	if of.NumRows() > math.MaxInt32 {
		return dst, fault.New(fault.Internal, "a batch of %d rows is too long to filter", of.NumRows())
	}
	rows := int(of.NumRows())
	if f == nil || f.root == constant(true) {
		if chosen {
			return append(dst, some...), nil
		}
		for i := range rows {
			dst = append(dst, int32(i))
		}
		return dst, nil
	}
	e, ok := f.scratch.Get().(*evaluation)
	if !ok {
		e = &evaluation{arrays: make(map[string]arrow.Array, len(f.columns))}
	}
	defer f.scratch.Put(e)
	defer e.end() // so that no batch is kept between calls
	if err := e.resolve(of, f.columns); err != nil {
		return dst, fault.Op(err, "filter %s", f)
	}
	e.some, e.chosen = some, chosen
	if !f.computes {
		return e.passing(f.root, 0, rows, dst)
	}
	e.mem, e.room = batch.Default(), room
	for from := 0; from < rows; {
		to, bytes := f.chunkEnd(e, from, rows)
		var err error
		if dst, err = e.chunk(f.root, from, to, bytes, dst); err != nil {
			return dst[:0], err
		}
		from = to
	}
	return dst, nil
}

// chunkEnd returns the end of a chunk that begins at a row, and an upper bound of the bytes of its values. It has chunkRows rows,
// or so few that their values take at most chunkBytes, or one row.
func (f *Filter) chunkEnd(e *evaluation, from, end int) (to int, bytes int64) {
	rows := min(chunkRows, end-from)
	for {
		bytes = e.sizeOf(f.root, from, from+rows)
		if rows == 1 || bytes <= chunkBytes {
			return from + rows, bytes
		}
		rows = (rows + 1) / 2
	}
}

// take takes room for values, and for what the allocator adds to their buffers, until giveBack.
func (e *evaluation) take(bytes int64) error {
	if e.room == nil {
		return nil
	}
	bytes += bytes / 4 //nolint:mnd // see batch.AllocatedSize
	if err := e.room.Grow(bytes); err != nil {
		return err
	}
	e.taken += bytes
	return nil
}

func (e *evaluation) giveBack() {
	if e.taken > 0 {
		e.room.Shrink(e.taken)
		e.taken = 0
	}
}

// sizeOf returns an upper bound of the bytes that the values of a rule take for rows from begin to end.
func (e *evaluation) sizeOf(r rule, begin, end int) int64 {
	part := e.views(begin, end)
	defer releaseAll(part)
	m := newMeasure(part, end-begin)
	m.rule(r)
	return m.sum()
}

// passing appends the rows from begin to end that pass. The arrays have only these rows.
func (e *evaluation) passing(root rule, begin, end int, dst []int32) ([]int32, error) {
	if begin == end {
		return dst, nil
	}
	e.rows = end - begin
	set := e.all()
	if e.chosen {
		clear(set)
		for ; len(e.some) > 0 && int(e.some[0]) < end; e.some = e.some[1:] {
			row := int(e.some[0]) - begin
			set[row>>6] |= 1 << (uint(row) & 63)
		}
	}
	defer e.recycle(set)
	if e.rows == 1 && e.mem != nil {
		e.keepOne(root, set)
	} else {
		root.keep(e, set)
	}
	before := len(dst)
	dst = appendRows(dst, set)
	for i := range dst[before:] {
		dst[before+i] += int32(begin)
	}
	return dst, e.err
}

// keepOne keeps the only row if each term of AND is TRUE. It fails if a term takes more than rowBytes,
// unless an earlier one drops the row: a client may send a term about rows that the terms of a policy
// hide, and must not learn their size.
func (e *evaluation) keepOne(root rule, set []uint64) {
	terms := []rule{root}
	if j, ok := root.(*junction); ok && j.all {
		terms = j.terms
	}
	for _, t := range terms {
		if set[0] == 0 || e.err != nil {
			return
		}
		bytes := e.sizeOf(t, 0, 1)
		if bytes > rowBytes {
			e.err = fault.New(fault.Exhausted, "the values of the condition %s may take %s for one row, more than %s",
				shorten(t.text()), fault.Size(bytes), fault.Size(rowBytes)).WithRemedy("shorten the texts before, as in left(x, 1000)")
			return
		}
		if e.err = e.take(bytes); e.err != nil {
			return
		}
		t.keep(e, set)
	}
}

// chunk appends the rows from begin to end that pass. Their values take at most a number of bytes.
func (e *evaluation) chunk(root rule, begin, end int, bytes int64, dst []int32) ([]int32, error) {
	if end-begin > 1 { // otherwise keepOne takes the memory of each term
		if err := e.take(bytes); err != nil {
			return dst, err
		}
	}
	whole := e.arrays
	e.arrays = e.views(begin, end)
	dst, err := e.passing(root, begin, end, dst)
	releaseAll(e.arrays)
	e.forget()
	e.giveBack()
	e.arrays = whole
	return dst, err
}

// views returns the rows from begin to end of all arrays. The caller releases them.
func (e *evaluation) views(begin, end int) map[string]arrow.Array {
	out := make(map[string]arrow.Array, len(e.arrays))
	for name, a := range e.arrays {
		out[name] = view(a, begin, end)
	}
	return out
}

func releaseAll(arrays map[string]arrow.Array) {
	for _, a := range arrays {
		a.Release()
	}
}

// view returns the rows from begin to end of an array as an array of its own. Unlike array.NewSlice, it
// does not read the number of nulls, which other goroutines may be storing, and operators and functions
// may store that of the view.
func view(a arrow.Array, begin, end int) arrow.Array {
	of, nulls := a.Data(), array.UnknownNullCount
	switch { // arrays without a bitmap cannot count their nulls
	case of.DataType().ID() == arrow.NULL:
		nulls = end - begin
	case len(a.NullBitmapBytes()) == 0:
		nulls = 0
	}
	data := array.NewData(of.DataType(), end-begin, of.Buffers(), of.Children(), nulls, of.Offset()+begin)
	defer data.Release()
	return array.MakeFromData(data)
}

// end releases the arrays of a call.
func (e *evaluation) end() {
	e.forget()
	clear(e.arrays)
	e.err, e.mem, e.room, e.some = nil, nil, nil, nil
}

// resolve finds columns in a batch.
func (e *evaluation) resolve(of arrow.RecordBatch, columns []column) error {
	for _, c := range columns {
		at := of.Schema().FieldIndices(c.name)
		if len(at) != 1 {
			return fault.New(fault.Internal, "a batch has %d columns named %q", len(at), c.name)
		}
		a := of.Column(at[0])
		if columnTypeOf(a.DataType()) != c.typ || c.exact != nil && !arrow.TypeEqual(a.DataType(), c.exact) {
			return fault.New(fault.Internal, "column %q is %s in a batch, bound as %s", c.name, a.DataType(), c.typeName)
		}
		if buffers := a.Data().Buffers(); c.typ.family != nested && a.Len() > 0 &&
			(len(buffers) < 2 || buffers[1] == nil || buffers[1].Len() == 0) {
			return fault.New(fault.Internal, "column %q has rows but no values in a batch", c.name)
		}
		e.arrays[c.name] = a
	}
	return nil
}
