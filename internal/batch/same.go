package batch

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/penstock/penstock/internal/fault"
)

// SameRow reports whether row i of a and row j of b are identical: nulls equal only nulls,
// regardless of the bytes under them, and floats compare by their bits. So replacing one row by a
// copy of the other changes nothing. Both arrays must have the same type, or the same type of
// values if one of them is coded. Rows of types that Gather does not support are never the same.
func SameRow(a arrow.Array, i int, b arrow.Array, j int) bool {
	x, y := a.Data(), b.Data()
	return sameRows(x, x.Offset()+i, y, y.Offset()+j, 1)
}

// sameRows compares n rows, numbered from the start of the buffers.
func sameRows(a arrow.ArrayData, i int, b arrow.ArrayData, j, n int) bool {
	if n == 0 || a.DataType().ID() == arrow.NULL {
		return true
	}
	x, y := validBits(a, i, n), validBits(b, j, n)
	if x == nil && y == nil {
		return sameValues(a, i, b, j, n)
	}
	for k := range n {
		is := x == nil || bitutil.BitIsSet(x, i+k)
		if is != (y == nil || bitutil.BitIsSet(y, j+k)) || is && !sameValues(a, i+k, b, j+k, 1) {
			return false
		}
	}
	return true
}

// validBits returns the validity bits of an array if any of the n rows from i is
// null; otherwise nil.
func validBits(a arrow.ArrayData, i, n int) []byte {
	b := a.Buffers()[0]
	if b == nil || b.Len() == 0 || a.NullN() == 0 {
		return nil
	}
	if bits := b.Bytes(); n > 1 || !bitutil.BitIsSet(bits, i) {
		if bitutil.CountSetBits(bits, i, n) < n {
			return bits
		}
	}
	return nil
}

// sameValues compares n rows, none of which is null.
func sameValues(a arrow.ArrayData, i int, b arrow.ArrayData, j, n int) bool {
	if isCoded(a) || isCoded(b) {
		return sameCoded(a, i, b, j, n)
	}
	switch dt := a.DataType().(type) {
	case *arrow.StructType:
		for k, child := range a.Children() {
			other := b.Children()[k]
			if !sameRows(child, child.Offset()+i, other, other.Offset()+j, n) {
				return false
			}
		}
		return true
	case *arrow.FixedSizeListType:
		width, x, y := int(dt.Len()), a.Children()[0], b.Children()[0]
		return sameRows(x, x.Offset()+i*width, y, y.Offset()+j*width, n*width)
	case *arrow.ListType, *arrow.MapType:
		return sameLists[int32](a, i, b, j, n)
	case *arrow.LargeListType:
		return sameLists[int64](a, i, b, j, n)
	case *arrow.StringType, *arrow.BinaryType:
		return sameTexts[int32](a, i, b, j, n)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return sameTexts[int64](a, i, b, j, n)
	case *arrow.BooleanType:
		x, y := a.Buffers()[1].Bytes(), b.Buffers()[1].Bytes()
		for k := range n {
			if bitutil.BitIsSet(x, i+k) != bitutil.BitIsSet(y, j+k) {
				return false
			}
		}
		return true
	case *arrow.DictionaryType, arrow.ExtensionType:
		return false
	case arrow.FixedWidthDataType:
		width := dt.Bytes()
		x, y := a.Buffers()[1].Bytes(), b.Buffers()[1].Bytes()
		return bytes.Equal(x[i*width:(i+n)*width], y[j*width:(j+n)*width])
	default:
		return false
	}
}

// sameLists compares lists of n rows.
func sameLists[O int32 | int64](a arrow.ArrayData, i int, b arrow.ArrayData, j, n int) bool {
	x, y := view[O](a.Buffers()[1].Bytes()), view[O](b.Buffers()[1].Bytes())
	from, to := a.Children()[0], b.Children()[0]
	for k := range n {
		length := int(x[i+k+1] - x[i+k])
		if length != int(y[j+k+1]-y[j+k]) || !sameRows(from, from.Offset()+int(x[i+k]), to, to.Offset()+int(y[j+k]), length) {
			return false
		}
	}
	return true
}

// sameTexts compares texts or binary values of n rows.
func sameTexts[O int32 | int64](a arrow.ArrayData, i int, b arrow.ArrayData, j, n int) bool {
	x, y := view[O](a.Buffers()[1].Bytes()), view[O](b.Buffers()[1].Bytes())
	for k := range n {
		if !bytes.Equal(textAt(a, x, i+k), textAt(b, y, j+k)) {
			return false
		}
	}
	return true
}

// textAt returns the bytes of a row's text.
func textAt[O int32 | int64](a arrow.ArrayData, offsets []O, row int) []byte {
	if offsets[row] == offsets[row+1] {
		return nil // the array may have no buffer
	}
	return a.Buffers()[2].Bytes()[offsets[row]:offsets[row+1]]
}

// HashRow returns a hash of a row that is not null. Under one seed, the same rows, in
// the sense of SameRow, have the same hash. It supports texts, binary values, and
// fixed-width values of whole bytes; rows of other types all have the hash 0.
func HashRow(seed maphash.Seed, a arrow.Array, row int) uint64 {
	d := a.Data()
	i := d.Offset() + row
	switch dt := d.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return maphash.Bytes(seed, textAt(d, view[int32](d.Buffers()[1].Bytes()), i))
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return maphash.Bytes(seed, textAt(d, view[int64](d.Buffers()[1].Bytes()), i))
	default:
		width, ok := plainWidth(dt)
		if !ok {
			return 0
		}
		return maphash.Bytes(seed, d.Buffers()[1].Bytes()[i*int(width):(i+1)*int(width)])
	}
}

// AppendValue appends a self-delimiting encoding of a value: values of one type have the
// same bytes exactly if they are equal. Integers of both widths have one encoding. Floats
// compare by their bits, except that all NaN are equal. The row must not be null. A nested
// type is Internal.
func AppendValue(dst []byte, column arrow.Array, row int) ([]byte, error) {
	if number, ok := IntegerAt(column, row); ok {
		return binary.BigEndian.AppendUint64(dst, uint64(number)), nil
	}
	switch a := column.(type) {
	case *array.Boolean:
		if a.Value(row) {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case *array.Float32:
		return binary.BigEndian.AppendUint64(dst, floatBits(float64(a.Value(row)))), nil
	case *array.Float64:
		return binary.BigEndian.AppendUint64(dst, floatBits(a.Value(row))), nil
	case *array.Decimal128:
		v := a.Value(row)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(v.HighBits())), v.LowBits()), nil
	case array.StringLike:
		text := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
	case interface{ Value(row int) []byte }: // binary, fixed-size or not
		value := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(value))), value...), nil
	default:
		return dst, fault.New(fault.Internal, "values of type %s cannot be encoded as a key", column.DataType())
	}
}

// IntegerAt returns the value of an integer, date, time or timestamp column; false for
// columns of other types. The row must not be null.
func IntegerAt(column arrow.Array, row int) (int64, bool) {
	switch a := column.(type) {
	case *array.Int32:
		return int64(a.Value(row)), true
	case *array.Int64:
		return a.Value(row), true
	case *array.Date32:
		return int64(a.Value(row)), true
	case *array.Time64:
		return int64(a.Value(row)), true
	case *array.Timestamp:
		return int64(a.Value(row)), true
	default:
		return 0, false
	}
}

func floatBits(v float64) uint64 {
	if math.IsNaN(v) {
		v = math.NaN()
	}
	return math.Float64bits(v)
}
