package function

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/fault"
)

// vector has the values of an argument of a fixed width. Row i has the value values[i&mask]:
// the mask is 0 if all rows have the same value.
type vector[T any] struct {
	values []T
	mask   int
}

func (v vector[T]) at(row int) T { return v.values[row&v.mask] }

// vectorOf returns the values of an argument. T has the width of the argument's type.
func vectorOf[T arrow.FixedWidthType](a arrow.Array, rows int) vector[T] {
	if a.Data().Buffers()[1] == nil { // all rows are null, or there are none
		return vector[T]{values: make([]T, 1)}
	}
	return vector[T]{arrow.GetValues[T](a.Data(), 1), maskOf(a, rows)}
}

func maskOf(a arrow.Array, rows int) int {
	if a.Len() == rows {
		return -1
	}
	return 0
}

// flags is a vector of booleans.
type flags struct {
	bytes        []byte
	offset, mask int
}

func flagsOf(a arrow.Array, rows int) flags {
	b := a.Data().Buffers()[1]
	if b == nil {
		return flags{bytes: make([]byte, 1)}
	}
	return flags{b.Bytes(), a.Data().Offset(), maskOf(a, rows)}
}

func (b flags) at(row int) bool { return bitutil.BitIsSet(b.bytes, b.offset+row&b.mask) }

// texts is a vector of strings or binary values.
type texts struct {
	offsets []int32
	bytes   []byte
	mask    int
}

func textsOf(a arrow.Array, rows int) texts {
	buffers := a.Data().Buffers()
	if buffers[1] == nil || buffers[1].Len() == 0 {
		return texts{offsets: make([]int32, 2)}
	}
	t := texts{arrow.GetOffsets[int32](a.Data(), 1), nil, maskOf(a, rows)}
	if buffers[2] != nil {
		t.bytes = buffers[2].Bytes()
	}
	return t
}

// at returns the bytes of a row, which the caller does not modify.
func (t texts) at(row int) []byte {
	row &= t.mask
	return t.bytes[t.offsets[row]:t.offsets[row+1]]
}

// total returns the number of bytes in all rows.
func (t texts) total(rows int) int {
	if t.mask == 0 {
		return rows * int(t.offsets[1]-t.offsets[0])
	}
	return int(t.offsets[len(t.offsets)-1] - t.offsets[0])
}

// nulls reports which rows of an argument are null, without calls of the array.
type nulls struct {
	bitmap       []byte // nil: no row is null
	offset, mask int
}

func nullsOf(a arrow.Array, rows int) nulls {
	if a.NullN() == 0 {
		return nulls{}
	}
	return nulls{a.NullBitmapBytes(), a.Data().Offset(), maskOf(a, rows)}
}

func allNullsOf(args []arrow.Array, rows int) []nulls {
	out := make([]nulls, len(args))
	for i, a := range args {
		out[i] = nullsOf(a, rows)
	}
	return out
}

func (n nulls) at(row int) bool {
	return n.bitmap != nil && !bitutil.BitIsSet(n.bitmap, n.offset+row&n.mask)
}

// refusal is the reason why a function has no result for some values, and what to do.
type refusal struct{ reason, remedy string }

// failed returns the error for a row. It shows the values of all arguments.
func failed(name string, args []arrow.Array, rows, row int, why *refusal) error {
	values := make([]string, len(args))
	for i, a := range args {
		values[i] = shown(a, row&maskOf(a, rows))
	}
	return fault.New(fault.Invalid, "%s(%s) %s", name, strings.Join(values, ", "), why.reason).WithRemedy("%s", why.remedy)
}

// shownBytes is the number of bytes of a value that an error shows.
const shownBytes = 60

// shownItems is the number of items up to which an error shows a list.
const shownItems = 6

func shown(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "NULL"
	}
	if l, ok := a.(*array.List); ok {
		if from, to := l.ValueOffsets(row); to-from > shownItems {
			return fmt.Sprintf("[… %d items]", to-from)
		}
	}
	text := fault.Printable(a.ValueStr(row), shownBytes)
	switch a.DataType().ID() {
	case arrow.STRING, arrow.DATE32, arrow.TIMESTAMP, arrow.TIME64:
		return "'" + text + "'"
	default:
		return text
	}
}
