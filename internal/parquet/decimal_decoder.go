package parquet

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// takeIntegers is take for decimals that are stored as integers. Like the library, it does not
// compare values with the number of digits that the file declares: conversions to fewer digits do.
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

// bigEndian decodes decimals that are stored one after another as two's complement of a width of
// at most 16 bytes.
func bigEndian(out []decimal128.Num, stored []byte, width int) {
	for i := range out {
		out[i] = bigEndianAt(stored, i*width, width)
	}
}

// bigEndianAt decodes the decimal at an offset. It may read, but does not use, bytes behind it.
func bigEndianAt(stored []byte, at, width int) decimal128.Num {
	if width > 8 {
		high := int64(binary.BigEndian.Uint64(stored[at:])) //nolint:gosec // bits of a signed number
		return decimal128.New(high>>(8*(16-width)), binary.BigEndian.Uint64(stored[at+width-8:at+width]))
	}
	var first uint64
	if at+8 <= len(stored) {
		first = binary.BigEndian.Uint64(stored[at:])
	} else {
		var padded [8]byte
		copy(padded[:], stored[at:at+width])
		first = binary.BigEndian.Uint64(padded[:])
	}
	return decimal128.FromI64(int64(first) >> (8 * (8 - width))) //nolint:gosec // bits of a signed number
}

// lookUpDecimals decodes the decimals of the dictionary at some indices, which it has.
func (l *valueDecoder) lookUpDecimals(out []decimal128.Num, indices []uint32) {
	for i, at := range indices {
		out[i] = bigEndianAt(l.dictionary, int(at)*l.width, l.width)
	}
}
