package expr

import (
	"math"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// evaluation is the state of a call of Evaluate, reused by later calls. A set of
// rows is a bitmap: bit i of word w is row 64·w + i.
type evaluation struct {
	arrays map[string]arrow.Array // arrays by the names of their columns
	rows   int
	free   [][]uint64
}

// Evaluate returns the numbers of the batch's rows that pass, in ascending order.
// The result overwrites dst and reuses its memory. Columns are found by name; the
// batch may have more columns, and is not modified. A column that is missing or has
// another type than it was bound with is Internal.
func (f *Filter) Evaluate(batch arrow.RecordBatch, dst []int32) ([]int32, error) {
	dst = dst[:0]
	if batch.NumRows() > math.MaxInt32 {
		return dst, fault.New(fault.Internal, "a batch of %d rows is too long to filter", batch.NumRows())
	}
	rows := int(batch.NumRows())
	if f == nil || f.root == constant(true) {
		for i := range rows {
			dst = append(dst, int32(i))
		}
		return dst, nil
	}
	e, ok := f.scratch.Get().(*evaluation)
	if !ok {
		e = &evaluation{arrays: make(map[string]arrow.Array, len(f.columns))}
	}
	defer func() {
		clear(e.arrays) // so that no batch is kept between calls
		f.scratch.Put(e)
	}()
	if err := f.resolve(batch, e); err != nil {
		return dst, err
	}
	if rows == 0 {
		return dst, nil
	}
	e.rows = rows
	set := e.bitmap()
	defer e.recycle(set)
	for w := range set {
		set[w] = math.MaxUint64
	}
	if tail := rows & 63; tail != 0 {
		set[len(set)-1] = 1<<tail - 1
	}
	f.root.keep(e, set)
	return appendRows(dst, set), nil
}

// resolve finds the filter's columns in a batch.
func (f *Filter) resolve(batch arrow.RecordBatch, e *evaluation) error {
	for _, c := range f.columns {
		at := batch.Schema().FieldIndices(c.name)
		if len(at) != 1 {
			return fault.New(fault.Internal, "filter %s: a batch has %d columns named %q", f, len(at), c.name)
		}
		a := batch.Column(at[0])
		if columnTypeOf(a.DataType()) != c.typ {
			return fault.New(fault.Internal, "filter %s: column %q is %s in a batch, bound as %s",
				f, c.name, a.DataType(), c.typeName)
		}
		if buffers := a.Data().Buffers(); c.typ.family != nested && a.Len() > 0 &&
			(len(buffers) < 2 || buffers[1] == nil || buffers[1].Len() == 0) {
			return fault.New(fault.Internal, "filter %s: column %q has rows but no values in a batch", f, c.name)
		}
		e.arrays[c.name] = a
	}
	return nil
}

// bitmap returns a bitmap with undefined contents, for the rows of the batch. Pass
// it to recycle after use.
func (e *evaluation) bitmap() []uint64 {
	n := (e.rows + 63) / 64
	if last := len(e.free) - 1; last >= 0 {
		set := e.free[last]
		e.free = e.free[:last]
		return slices.Grow(set[:0], n)[:n]
	}
	return make([]uint64, n)
}

func (e *evaluation) recycle(set []uint64) { e.free = append(e.free, set) }

// appendRows appends the numbers of the rows in a set.
func appendRows(dst []int32, set []uint64) []int32 {
	n := 0
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	dst = slices.Grow(dst, n)
	for w, word := range set {
		row := int32(w) * 64
		if word == math.MaxUint64 {
			for i := range int32(64) {
				dst = append(dst, row+i)
			}
			continue
		}
		for ; word != 0; word &= word - 1 {
			dst = append(dst, row+int32(bits.TrailingZeros64(word)))
		}
	}
	return dst
}

func (c constant) keep(_ *evaluation, rows []uint64) {
	if !c {
		clear(rows)
	}
}

func (n *null) keep(e *evaluation, rows []uint64) {
	valid := validity(e.arrays[n.column.name])
	e.each(rows, func(begin, end int) uint64 {
		if n.isNull {
			return ^valid(begin, end)
		}
		return valid(begin, end)
	})
}

func (l *leaf) keep(e *evaluation, rows []uint64) {
	a := e.arrays[l.column.name]
	valid, match := validity(a), l.match(a)
	if _, opposite := l.test.primitive(); opposite {
		e.each(rows, func(begin, end int) uint64 { return ^match(begin, end) & valid(begin, end) })
		return
	}
	e.each(rows, func(begin, end int) uint64 { return match(begin, end) & valid(begin, end) })
}

func (p *pair) keep(e *evaluation, rows []uint64) {
	a, b := e.arrays[p.left.name], e.arrays[p.right.name]
	validLeft, validRight, match := validity(a), validity(b), p.match(a, b)
	e.each(rows, func(begin, end int) uint64 {
		return match(begin, end) & validLeft(begin, end) & validRight(begin, end)
	})
}

func (j *junction) keep(e *evaluation, rows []uint64) {
	if j.all {
		for _, t := range j.terms {
			t.keep(e, rows)
		}
		return
	}
	// open has the rows that no term has kept so far. Those that are left after the last term are
	// removed from rows.
	open, kept := e.bitmap(), e.bitmap()
	copy(open, rows)
	for _, t := range j.terms {
		copy(kept, open)
		t.keep(e, kept)
		subtract(open, kept)
	}
	subtract(rows, open)
	e.recycle(open)
	e.recycle(kept)
}

// subtract removes the rows of b from a.
func subtract(a, b []uint64) {
	for w := range a {
		a[w] &^= b[w]
	}
}

// each clears the bits of those rows for which word returns no bit. It skips words without rows, so
// that a later term of AND takes time only for rows that the earlier terms have kept.
func (e *evaluation) each(rows []uint64, word wordFunc) {
	for w := range rows {
		if rows[w] != 0 {
			begin := w * 64
			rows[w] &= word(begin, min(begin+64, e.rows))
		}
	}
}

// validity returns a wordFunc that returns the bits of rows that are not null. It does not call
// NullN, because arrays store its result without a lock, and other goroutines may use the same
// batch.
func validity(a arrow.Array) wordFunc {
	bitmap, offset := a.NullBitmapBytes(), a.Data().Offset()
	switch {
	case a.DataType().ID() == arrow.NULL:
		return func(int, int) uint64 { return 0 }
	case len(bitmap) == 0:
		return func(int, int) uint64 { return math.MaxUint64 }
	default:
		return func(begin, end int) uint64 { return loadBits(bitmap, offset+begin, end-begin) }
	}
}
