package decoder

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// takeIntegers is take for decimals that are stored as integers. Like the library, it does not
// check that values have at most the number of digits that the file declares. Conversions to fewer
// digits check that.
func (l *valueDecoder) takeIntegers(out []byte) error {
	var window [valueWindow]uint64
	for into := arrow.Decimal128Traits.CastFromBytes(out); len(into) > 0; {
		some := into[:min(len(into), valueWindow)]
		stored := arrow.Uint64Traits.CastToBytes(window[:])[:len(some)*l.width]
		if err := l.takeSame(stored, len(some)); err != nil {
			return err
		}
		if l.width == arrow.Int32SizeBytes {
			signExtend(some, arrow.Int32Traits.CastFromBytes(stored))
		} else {
			signExtend(some, arrow.Int64Traits.CastFromBytes(stored))
		}
		into = into[len(some):]
	}
	return nil
}

func signExtend[T int32 | int64](out []decimal128.Num, values []T) {
	for i, v := range values {
		out[i] = decimal128.FromI64(int64(v))
	}
}

// bigEndian decodes decimals that are stored one after another as big-endian two's complement, each
// in width bytes. width is at most 16.
func bigEndian(out []decimal128.Num, stored []byte, width int) {
	i := 0
	if width <= wordBytes { // load eight bytes for each value, except for the last values, behind which fewer follow
		for ; i < len(out) && i*width+wordBytes <= len(stored); i++ {
			out[i] = shortDecimal(stored[i*width:], width)
		}
	}
	for ; i < len(out); i++ {
		out[i] = bigEndianOf(stored[i*width : (i+1)*width])
	}
}

// wordBytes is the number of bytes that are loaded at once.
const wordBytes = 8

// shortDecimal decodes a decimal of width bytes, at most eight, at the front of stored, which has
// at least eight bytes.
func shortDecimal(stored []byte, width int) decimal128.Num {
	return decimal128.FromI64(int64(binary.BigEndian.Uint64(stored)) >> (8 * (wordBytes - width))) //nolint:gosec // bits of a signed number
}

// bigEndianOf decodes one decimal.
func bigEndianOf(stored []byte) decimal128.Num {
	width := len(stored)
	if width <= wordBytes {
		var padded [wordBytes]byte
		copy(padded[:], stored)
		return shortDecimal(padded[:], width)
	}
	high := int64(binary.BigEndian.Uint64(stored)) //nolint:gosec // bits of a signed number
	return decimal128.New(high>>(8*(2*wordBytes-width)), binary.BigEndian.Uint64(stored[width-wordBytes:]))
}

// lookUpDecimals decodes the decimals of the dictionary at the given indices, which must be in
// range.
func (l *valueDecoder) lookUpDecimals(out []decimal128.Num, indices []uint32) {
	for i, index := range indices {
		at := int(index) * l.width
		if l.width <= wordBytes && at+wordBytes <= len(l.dictionary) {
			out[i] = shortDecimal(l.dictionary[at:], l.width)
		} else {
			out[i] = bigEndianOf(l.dictionary[at : at+l.width])
		}
	}
}
