package joiner

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/invariant"
)

// keyVector holds the keys of some rows. One integral column is in ints; all other
// keys are bytes, key i being arena[ends[i]:ends[i+1]]. Keys of equal families are
// equal if and only if their numbers or bytes are, and are ordered as these are:
// column by column, numbers by value, strings and binary values by their bytes.
// Keys of null rows are undefined.
type keyVector struct {
	ints  []int64
	arena []byte
	ends  []int64
	null  []bool // nil if no row has a null in a key column
	nulls int64
}

// encoder encodes key columns as vectors. It is not safe for concurrent use.
type encoder struct {
	types   []keyType
	columns []column
	// Scratch memory that the last vector may refer to.
	ints  []int64
	arena []byte
	ends  []int64
	null  []bool
}

func newEncoder(types []keyType) *encoder {
	return &encoder{types: types, columns: make([]column, len(types))}
}

// inPlace reports whether vectors refer to the memory of the one column.
func (e *encoder) inPlace() bool { return len(e.types) == 1 && e.types[0].layout != layoutDecimal }

// integral reports whether vectors hold numbers.
func (e *encoder) integral() bool { return len(e.types) == 1 && e.types[0].integral() }

// encode returns the keys of all rows of the columns. They are valid until the next
// call, and as long as the columns.
func (e *encoder) encode(arrays []arrow.Array) keyVector {
	var v keyVector
	for i, a := range arrays {
		e.columns[i].load(e.types[i], a)
	}
	rows := arrays[0].Len()
	v.null, v.nulls = e.markNulls(arrays, rows)
	switch {
	case e.integral():
		v.ints = e.numbers(rows)
	case e.inPlace():
		v.arena, v.ends = e.values(rows)
	default:
		v.arena, v.ends = e.composite(rows)
	}
	return v
}

// markNulls returns which rows have a null in a key column, and how many do.
func (e *encoder) markNulls(arrays []arrow.Array, rows int) ([]bool, int64) {
	var null []bool
	var nulls int64
	for _, a := range arrays {
		if a.NullN() == 0 {
			continue
		}
		if null == nil {
			null = resize(&e.null, rows)
			clear(null)
		}
		for i := range rows {
			if !null[i] && a.IsNull(i) {
				null[i] = true
				nulls++
			}
		}
	}
	return null, nulls
}

// numbers returns the values of the one column.
func (e *encoder) numbers(rows int) []int64 {
	c := &e.columns[0]
	if c.layout == layoutInt64 {
		return c.longs
	}
	out := resize(&e.ints, rows)
	for i, x := range c.ints {
		out[i] = int64(x)
	}
	return out
}

// values returns the values of the one column without copying them.
func (e *encoder) values(rows int) ([]byte, []int64) {
	c := &e.columns[0]
	if c.layout == layoutLong {
		return c.bytes, c.long
	}
	ends := resize(&e.ends, rows+1)
	if c.layout == layoutShort {
		for i, x := range c.short {
			ends[i] = int64(x)
		}
		return c.bytes, ends
	}
	for i := range ends {
		ends[i] = int64(i) * int64(c.width)
	}
	return c.bytes, ends
}

// composite concatenates the values of each row in a form whose bytes are ordered as
// the values are: numbers are big-endian with the sign bit inverted. A string or
// binary value that is not the last ends with a terminator that is below every byte
// that can follow.
func (e *encoder) composite(rows int) ([]byte, []int64) {
	last := len(e.types) - 1
	size := e.arenaSize(rows)
	arena, ends := resize(&e.arena, int(size))[:0], resize(&e.ends, rows+1)
	ends[0] = 0
	for i := range rows {
		for at := range e.columns {
			c := &e.columns[at]
			switch {
			case c.layout == layoutInt32:
				arena = binary.BigEndian.AppendUint64(arena, uint64(c.ints[i])^sign)
			case c.layout == layoutInt64:
				arena = binary.BigEndian.AppendUint64(arena, uint64(c.longs[i])^sign)
			case c.layout == layoutDecimal:
				value := c.value(i)
				arena = binary.BigEndian.AppendUint64(arena, binary.LittleEndian.Uint64(value[word:])^sign)
				arena = binary.BigEndian.AppendUint64(arena, binary.LittleEndian.Uint64(value))
			case c.sized() || at == last:
				arena = append(arena, c.value(i)...)
			default:
				arena = appendEscaped(arena, c.value(i))
			}
		}
		ends[i+1] = int64(len(arena))
	}
	invariant.Check(int64(len(arena)) == size, "keys of %d bytes where %d were reserved", len(arena), size)
	return arena, ends
}

// sign is the sign bit. Inverted, it makes signed numbers ascend in the order of
// their bits as unsigned numbers.
const sign = 1 << 63

// The terminator of a value, and the escape of a zero byte within it: the terminator
// is below the escape, and a zero byte below every other.
const (
	escapedEnd  = "\x00\x00"
	escapedZero = "\x00\xff"
)

func appendEscaped(arena, value []byte) []byte {
	for {
		zero := bytes.IndexByte(value, 0)
		if zero < 0 {
			return append(append(arena, value...), escapedEnd...)
		}
		arena = append(append(arena, value[:zero]...), escapedZero...)
		value = value[zero+1:]
	}
}

// arenaSize returns the bytes of the loaded columns' composite keys, or of the
// values of the one column, including those of null rows.
func (e *encoder) arenaSize(rows int) int64 {
	size := int64(0)
	for i := range e.columns {
		c := &e.columns[i]
		size += c.total(rows)
		if !c.sized() && i < len(e.columns)-1 {
			size += int64(rows*len(escapedEnd)) + c.zeros(rows)
		}
	}
	return size
}

// size returns the bytes that the arrays' keys take when they are kept, and an upper
// bound of the scratch bytes for encoding them.
func (e *encoder) size(arrays []arrow.Array) (kept, scratch int64) {
	rows := arrays[0].Len()
	for i, a := range arrays {
		e.columns[i].load(e.types[i], a)
	}
	scratch = int64(rows+1)*word + int64(rows) // numbers or ends, and null
	if e.integral() {
		return int64(rows) * word, scratch
	}
	arena := e.arenaSize(rows)
	if !e.inPlace() {
		scratch += arena
	}
	return int64(rows)*word + arena, scratch
}

// word is the size of a number in a key, of a length, and of an end. Half of it is
// the size of a reference.
const (
	word = 8
	half = word / 2
)

// column is the memory of one key column, by layout. Slices start at the first row.
type column struct {
	keyType
	ints  []int32
	longs []int64
	short []int32 // offsets into bytes, one more than rows
	long  []int64
	bytes []byte
}

// load points c to an array of type t with at least one row.
func (c *column) load(t keyType, a arrow.Array) {
	d := a.Data()
	*c = column{keyType: t}
	switch t.layout {
	case layoutInt32:
		c.ints = orZero(arrow.GetValues[int32](d, 1), d.Len())
	case layoutInt64:
		c.longs = orZero(arrow.GetValues[int64](d, 1), d.Len())
	case layoutFixed, layoutDecimal:
		if b := d.Buffers()[1]; b != nil && b.Len() > 0 {
			c.bytes = b.Bytes()[d.Offset()*t.width : (d.Offset()+d.Len())*t.width]
		}
		c.bytes = orZero(c.bytes, d.Len()*t.width)
	case layoutShort:
		c.short = arrow.GetOffsets[int32](d, 1)
	case layoutLong:
		c.long = arrow.GetOffsets[int64](d, 1)
	}
	if b := d.Buffers(); !t.sized() && b[2] != nil {
		c.bytes = b[2].Bytes()
	}
}

// orZero replaces the values of an all-null array, which Arrow allows to be absent.
func orZero[T any](values []T, n int) []T {
	if values == nil {
		return make([]T, n)
	}
	return values
}

// value returns the bytes of a row; not for integral columns.
func (c *column) value(row int) []byte {
	switch c.layout {
	case layoutShort:
		return c.bytes[c.short[row]:c.short[row+1]]
	case layoutLong:
		return c.bytes[c.long[row]:c.long[row+1]]
	case layoutInt32, layoutInt64, layoutFixed, layoutDecimal:
	}
	return c.bytes[row*c.width : (row+1)*c.width]
}

// total returns the bytes of all values; a number takes a word.
func (c *column) total(rows int) int64 {
	switch c.layout {
	case layoutShort:
		return int64(c.short[rows]) - int64(c.short[0])
	case layoutLong:
		return c.long[rows] - c.long[0]
	case layoutFixed, layoutDecimal:
		return int64(rows) * int64(c.width)
	case layoutInt32, layoutInt64:
	}
	return int64(rows) * word
}

// zeros returns how many zero bytes the values of a column of bytes have.
func (c *column) zeros(rows int) int64 {
	from, to := int64(0), int64(0)
	if c.layout == layoutLong {
		from, to = c.long[0], c.long[rows]
	} else {
		from, to = int64(c.short[0]), int64(c.short[rows])
	}
	return int64(bytes.Count(c.bytes[from:to], []byte{0}))
}

// resize returns a slice of n values with undefined content, reusing scratch.
func resize[T any](scratch *[]T, n int) []T {
	if cap(*scratch) < n {
		*scratch = make([]T, n)
	}
	*scratch = (*scratch)[:n]
	return *scratch
}

// key returns the bytes of a row's key, for keys that are bytes.
func (v keyVector) key(row int32) []byte { return v.arena[v.ends[row]:v.ends[row+1]] }

// slice returns the keys of consecutive rows.
func (v keyVector) slice(from, to int) keyVector {
	part := keyVector{arena: v.arena}
	if v.ends == nil {
		part.ints = v.ints[from:to]
	} else {
		part.ends = v.ends[from : to+1]
	}
	return part
}
