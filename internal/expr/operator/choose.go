package operator

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Choose returns an array of a type of fixed width. Its values in the rows of each set are those of
// the source with the same index; sets have no row in common. Rows in no set are null.
func Choose(dt arrow.DataType, sources []arrow.Array, sets [][]uint64, rows Rows) arrow.Array {
	values := rows.buffer((rows.Count*dt.(arrow.FixedWidthDataType).BitWidth() + 7) / 8)
	clear(values.Bytes()) // so that the values under nulls are defined
	for i, source := range sources {
		copyRows(dt, values.Bytes(), source, sets[i], rows.Count)
	}
	complete := true
	word := func(begin, end int) (all uint64) {
		for i, source := range sources {
			if set := sets[i][begin/64]; set != 0 {
				all |= set & validityOf(source, rows.Count)(begin, end)
			}
		}
		return all
	}
	rows.eachWord(func(begin, end int) { complete = complete && bits.OnesCount64(word(begin, end)) == end-begin })
	if complete {
		return rows.Make(dt, nil, values)
	}
	return rows.Make(dt, rows.Bitmap(word), values)
}

// ChooseSize returns an upper bound of the bytes that Choose requests.
func ChooseSize(dt arrow.DataType, rows int) int64 { return fixedSize(dt)(nil, rows) }

// validityOf is like Validity, and returns the bit of a literal for all rows.
func validityOf(a arrow.Array, count int) func(begin, end int) uint64 {
	if a.Len() == count {
		return Validity(a)
	}
	all := uint64(0)
	if Validity(a)(0, 1)&1 == 1 {
		all = ^all
	}
	return func(int, int) uint64 { return all }
}

// copyRows copies the values of the rows of a set.
func copyRows(dt arrow.DataType, out []byte, source arrow.Array, set []uint64, count int) {
	if flags, ok := source.(*array.Boolean); ok {
		copyFlags(out, flags, set, count)
		return
	}
	switch dt.(arrow.FixedWidthDataType).BitWidth() {
	case 32:
		copyValues(arrow.GetData[int32](out), arrow.GetValues[int32](source.Data(), 1), set)
	case 64:
		copyValues(arrow.GetData[int64](out), arrow.GetValues[int64](source.Data(), 1), set)
	default:
		copyValues(arrow.GetData[decimal128.Num](out), arrow.GetValues[decimal128.Num](source.Data(), 1), set)
	}
}

func copyValues[T int32 | int64 | decimal128.Num](out, values []T, set []uint64) {
	literal := len(values) != len(out)
	for w, word := range set {
		first := w * 64
		if word == ^uint64(0) && !literal {
			copy(out[first:first+64], values[first:])
			continue
		}
		for ; word != 0; word &= word - 1 {
			row := first + bits.TrailingZeros64(word)
			if literal {
				out[row] = values[0]
			} else {
				out[row] = values[row]
			}
		}
	}
}

func copyFlags(out []byte, flags *array.Boolean, set []uint64, count int) {
	for w, word := range set {
		begin := w * 64
		switch {
		case word == 0:
		case flags.Len() != count:
			if flags.Value(0) {
				OrBits(out, begin, word)
			}
		default:
			bitmap, offset := flags.Data().Buffers()[1].Bytes(), flags.Data().Offset()
			OrBits(out, begin, word&LoadBits(bitmap, offset+begin, min(64, count-begin)))
		}
	}
}
