package decoder

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/page"
)

// fixedForm is leafForm for fixed-length bytes, which may be decimals. INT96 values are stored in
// pages in the same way. Decimals of more than 16 bytes need no form, since the library refuses
// them.
func fixedForm(of *page.Chunk, kind arrow.DataType) (valueForm, int) {
	width := of.Column.TypeLength()
	if !of.EncodedAs(parquet.Encodings.DeltaByteArray) {
		return sameForm, 0
	}
	switch kind := batch.StorageOf(kind); kind.ID() {
	case arrow.FIXED_SIZE_BINARY:
		if kind.(arrow.FixedWidthDataType).Bytes() == width {
			return fixedBytes, width
		}
	case arrow.DECIMAL128:
		if width <= arrow.Decimal128SizeBytes {
			return fixedDecimal, max(width, 0)
		}
	}
	return sameForm, 0
}

// newValueDecoder returns a decoder for a column whose values have a fixed width.
func newValueDecoder(from *page.Reader, form valueForm, width int) valueDecoder {
	return valueDecoder{pages: from, form: form, width: width, longest: width}
}

// valueWindow is the number of values that are decoded at a time if decoding takes several passes
// over them.
const valueWindow = 512

// takeFixed is take for fixed-length bytes.
func (l *valueDecoder) takeFixed(out []byte, n int) error {
	switch {
	case l.deltas != nil:
		return l.takeDeltas(out, n)
	case l.indexed:
		return l.takeFixedIndexed(out, n)
	case len(l.values) < n*l.width:
		return errValuesMissing
	}
	stored := l.values[:n*l.width]
	if l.form == fixedDecimal {
		bigEndian(arrow.Decimal128Traits.CastFromBytes(out), stored, l.width)
	} else {
		copy(out, stored)
	}
	l.values = l.values[n*l.width:]
	return nil
}

// takeFixedIndexed is takeFixed for a page of dictionary indices.
func (l *valueDecoder) takeFixedIndexed(out []byte, n int) error {
	var window [valueWindow]uint32
	size := l.size()
	for n > 0 {
		found := window[:min(n, valueWindow)]
		if err := l.indices.numbers(found, l.entries); err != nil {
			return err
		}
		if l.form == fixedDecimal {
			l.lookUpDecimals(arrow.Decimal128Traits.CastFromBytes(out), found)
		} else {
			for i, at := range found {
				copy(out[i*l.width:(i+1)*l.width], l.dictionary[int(at)*l.width:])
			}
		}
		n, out = n-len(found), out[len(found)*size:]
	}
	return nil
}

// numbers fills out with the next numbers. It fails if one of them is not below limit.
func (h *rleDecoder) numbers(out []uint32, limit int) error {
	for len(out) > 0 {
		switch {
		case h.repeat > 0:
			k := min(len(out), h.repeat)
			if uint64(h.value) >= uint64(limit) {
				return errIndex
			}
			for i := range out[:k] {
				out[i] = h.value
			}
			h.repeat, out = h.repeat-k, out[k:]
		case h.packed > 0:
			k := min(len(out), h.packed)
			if most := h.unpack(out[:k]); uint64(most) >= uint64(limit) {
				return errIndex
			}
			h.packed, out = h.packed-k, out[k:]
		default:
			if err := h.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack fills out with numbers of the open bit-packed run, and returns the largest of them. It
// loads eight bytes at a time, except near the end of the run.
func (h *rleDecoder) unpack(out []uint32) (most uint32) {
	width, mask := h.width, uint64(1)<<h.width-1
	at, whole := h.at, len(h.bits)-8
	i := 0
	for ; i < len(out) && at>>3 <= whole; i++ {
		v := uint32(binary.LittleEndian.Uint64(h.bits[at>>3:]) >> (at & 7) & mask) //nolint:gosec // at most 32 bits
		out[i], most = v, max(most, v)
		at += width
	}
	for ; i < len(out); i++ {
		out[i] = h.number(at)
		most = max(most, out[i])
		at += width
	}
	h.at = at
	return most
}

// decodeFixed decodes one stored value of fixed-length bytes into out.
func (l *valueDecoder) decodeFixed(out, stored []byte) {
	if l.form == fixedDecimal {
		arrow.Decimal128Traits.CastFromBytes(out)[0] = bigEndianOf(stored)
	} else {
		copy(out, stored)
	}
}

// spreadBytes is spread for values of any size.
func spreadBytes(out []byte, size int, validity []byte, at, present int) {
	from := present - 1
	for to := len(out)/size - 1; to >= 0; to-- {
		into := out[to*size : (to+1)*size]
		if bitutil.BitIsSet(validity, at+to) {
			copy(into, out[from*size:(from+1)*size])
			from--
		} else {
			clear(into)
		}
	}
}
