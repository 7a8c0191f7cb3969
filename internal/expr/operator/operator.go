// Package operator has the operators of value expressions: arithmetic and casts, as loops over
// Arrow arrays. Package expr parses expressions and binds them to operators.
//
// An operator means what DuckDB and Spark 4 (in ANSI mode, its default) mean by it. If the two
// engines disagree about a value, or one of them fails, the operator fails. If they disagree only
// about the type of the result, the result has the wider type. A null operand makes the result
// null.
package operator

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Bound is an operator for operands of certain types. It is immutable and safe for concurrent use.
type Bound struct {
	Type     arrow.DataType
	Nullable bool // whether the result may be null although no operand is

	// Run computes the result. All memory is from the memory of rows. The caller releases the
	// result. An error is Invalid, and has the values and a remedy.
	Run func(operands []arrow.Array, rows Rows) (arrow.Array, error)

	// Size returns an upper bound of the bytes that Run requests for a number of rows. sizes has an
	// upper bound of the bytes of each operand.
	Size func(sizes []int64, rows int) int64
}

// Rows are the rows of an evaluation. An operand has one value for each row, or a single value,
// which is that of a literal.
type Rows struct {
	Count  int
	Active []uint64 // bit i of word w is row 64·w + i: whether the row's result is needed. Other rows cause no errors
	Memory memory.Allocator
}

// Op is a binary operator.
type Op int

// The binary operators.
const (
	Add Op = iota
	Subtract
	Multiply
	Divide
	Remainder
	Concatenate // of texts
)

// String returns the operator's text.
func (o Op) String() string { return [...]string{"+", "-", "*", "/", "%", "||"}[o] }

// padding is the multiple to which Arrow's buffers grow.
const padding = 64

// bufferSize returns the bytes of a buffer of n bytes.
func bufferSize(n int64) int64 { return (n + padding - 1) / padding * padding }

// fixedSize returns the Size of results of a type of fixed width.
func fixedSize(dt arrow.DataType) func([]int64, int) int64 {
	bits := dt.(arrow.FixedWidthDataType).BitWidth()
	return func(_ []int64, rows int) int64 {
		return bufferSize((int64(rows)*int64(bits)+7)/8) + bufferSize((int64(rows)+7)/8)
	}
}

// buffer returns a buffer of n bytes, which the caller releases.
func (r Rows) buffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(r.Memory)
	b.Resize(n)
	return b
}

// Make returns an array of buffers, and takes them over. A nil validity means no nulls.
func (r Rows) Make(dt arrow.DataType, validity *memory.Buffer, buffers ...*memory.Buffer) arrow.Array {
	all := append([]*memory.Buffer{validity}, buffers...)
	nulls := 0
	if validity != nil {
		nulls = r.Count - countBits(validity.Bytes(), r.Count)
	}
	data := array.NewData(dt, r.Count, all, nil, nulls, 0)
	defer data.Release()
	for _, b := range all {
		if b != nil {
			b.Release()
		}
	}
	return array.MakeFromData(data)
}

// matters reports whether a row is active and valid.
func (r Rows) matters(validity *memory.Buffer, row int) bool {
	return r.Active[row>>6]>>(uint(row)&63)&1 == 1 && valid(validity, row)
}

func valid(validity *memory.Buffer, row int) bool {
	return validity == nil || validity.Bytes()[row>>3]>>(uint(row)&7)&1 == 1
}

// failure returns the error for a value.
func failure(remedy, format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...).WithRemedy("%s", remedy)
}
