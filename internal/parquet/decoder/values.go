package decoder

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/page"
)

// valueDecoder decodes the values of a primitive column. The values may be plain,
// dictionary-encoded or, if they are bytes, delta-encoded. It does not look at levels, which encode
// nulls and lists.
type valueDecoder struct {
	pages *page.Reader
	form  valueForm
	width int // size of a stored value in bytes; 0: variable

	dictionary []byte     // values of the dictionary page; nil before it is read
	entries    int        // number of values in the dictionary
	values     []byte     // rest of the values of the open page if it is plain; rest of the suffixes if it has deltas
	indices    rleDecoder // into dictionary, of the open page
	indexed    bool       // whether the open page has indices instead of values

	deltas  *deltaValues // lengths of the open page's values; nil: it is not encoded as deltas
	longest int          // length of the longest value in pages of DELTA_BYTE_ARRAY
	last    []byte       // room for one such value, from scratch memory
}

// valueForm is the form in which a valueDecoder returns stored values.
type valueForm int

const (
	sameForm       valueForm = iota // numbers of 4 or 8 bytes, or variable-length bytes, which are returned unchanged
	integerDecimal                  // 32- or 64-bit integers, which are returned as decimals
	fixedDecimal                    // big-endian numbers of up to 16 bytes, which are returned as decimals
	fixedBytes                      // fixed-length bytes, which are returned unchanged
)

// size returns the size in bytes of a decoded value. The values must have a fixed length.
func (l *valueDecoder) size() int {
	switch l.form {
	case integerDecimal, fixedDecimal:
		return arrow.Decimal128SizeBytes
	case sameForm, fixedBytes:
	}
	return l.width
}

var errSurplus = errors.New("a page has more values or levels than rows")

// leafForm returns the form and the width of a chunk's values. The width is 0 if a valueDecoder
// cannot decode the chunk's pages. kind is the Arrow type that the library gives the leaf.
func leafForm(of *page.Chunk, kind arrow.DataType) (valueForm, int) {
	stored := of.Column.PhysicalType()
	if stored == parquet.Types.FixedLenByteArray {
		return fixedForm(of, kind)
	}
	if !of.EncodedAs() {
		return sameForm, 0
	}
	switch batch.StorageOf(kind).ID() {
	case arrow.INT32, arrow.DATE32, arrow.TIME32, arrow.FLOAT32:
		if stored == parquet.Types.Int32 || stored == parquet.Types.Float {
			return sameForm, 4
		}
	case arrow.INT64, arrow.FLOAT64, arrow.TIME64, arrow.TIMESTAMP:
		if stored == parquet.Types.Int64 || stored == parquet.Types.Double {
			return sameForm, 8
		}
	case arrow.DECIMAL128:
		if stored == parquet.Types.Int32 || stored == parquet.Types.Int64 {
			return integerDecimal, stored.ByteSize()
		}
	}
	return sameForm, 0
}

// next returns the next data page, which is valid until the next call, or nil after the
// last. It keeps the dictionary page, which precedes the data pages. All values of the
// previous page must have been taken.
func (l *valueDecoder) next() (*page.Page, error) {
	if len(l.values) > 0 || !l.indices.exhausted() || !l.deltas.exhausted() { // for example, levels were decoded as values
		return nil, errSurplus
	}
	for {
		next, err := l.pages.Next()
		if next == nil || err != nil {
			return nil, err
		}
		if !next.Dictionary {
			return next, nil
		}
		if l.dictionary != nil {
			return nil, errors.New("a column has two dictionaries")
		}
		if l.width > 0 && len(next.Values) != next.Count*l.width {
			return nil, fmt.Errorf("a dictionary of %d values has %d bytes", next.Count, len(next.Values))
		}
		l.dictionary, l.entries = next.Values, next.Count
	}
}

// open starts decoding the values of a page.
func (l *valueDecoder) open(p *page.Page) error {
	l.values, l.indices, l.indexed, l.deltas = p.Values, rleDecoder{}, false, nil
	switch p.Encoding {
	case parquet.Encodings.Plain:
		return nil
	case parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray:
		return l.openDeltas(p)
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		var err error
		l.indexed, l.values = true, nil
		l.indices, err = indicesOf(p.Values)
		return err
	default:
		return page.Unlisted(p.Encoding)
	}
}

// indicesOf returns a decoder of a page's indices, which are preceded by their width.
func indicesOf(values []byte) (rleDecoder, error) {
	if len(values) == 0 { // a page of nulls may omit the width
		return rleDecoder{}, nil
	}
	if values[0] > 32 {
		return rleDecoder{}, fmt.Errorf("dictionary indices have %d bits", values[0])
	}
	return rleDecoder{rest: values[1:], width: int(values[0])}, nil
}

// take decodes the next n values of the open page into out, which has room for exactly n.
func (l *valueDecoder) take(out []byte, n int) error {
	switch l.form {
	case integerDecimal:
		return l.takeIntegers(out)
	case fixedDecimal, fixedBytes:
		return l.takeFixed(out, n)
	case sameForm:
	}
	return l.takeSame(out, n)
}

// takeSame is take for values of 4 or 8 bytes that have the same form in pages and in memory.
func (l *valueDecoder) takeSame(out []byte, n int) error {
	switch {
	case !l.indexed:
		if len(l.values) < len(out) {
			return errValuesMissing
		}
		copy(out, l.values)
		l.values = l.values[len(out):]
		return nil
	case l.width == 4:
		return gather(&l.indices, arrow.Uint32Traits.CastFromBytes(out), arrow.Uint32Traits.CastFromBytes(l.dictionary), n)
	default:
		return gather(&l.indices, arrow.Uint64Traits.CastFromBytes(out), arrow.Uint64Traits.CastFromBytes(l.dictionary), n)
	}
}

// pass skips the next n values of the open page.
func (l *valueDecoder) pass(n int) error {
	switch {
	case l.indexed:
		return l.indices.skip(n)
	case l.deltas != nil:
		return l.takeDeltas(nil, n)
	case len(l.values) < n*l.width:
		return errValuesMissing
	}
	l.values = l.values[n*l.width:]
	return nil
}

// errValuesMissing is the error for a page that ends early.
var errValuesMissing = errors.New("a page has fewer values than rows")

// spread moves the values at the front of out to the positions of rows that are not null, and
// zeroes the positions of nulls. at is the offset of out's bits in validity.
func (l *valueDecoder) spread(out, validity []byte, at, present int) {
	switch size := l.size(); size {
	case 4:
		spread(arrow.Uint32Traits.CastFromBytes(out), validity, at, present)
	case 8:
		spread(arrow.Uint64Traits.CastFromBytes(out), validity, at, present)
	case arrow.Decimal128SizeBytes:
		spread(arrow.Decimal128Traits.CastFromBytes(out), validity, at, present)
	default:
		spreadBytes(out, size, validity, at, present)
	}
}

// spread works backwards, so no value is overwritten before it is moved.
func spread[T uint32 | uint64 | decimal128.Num](out []T, validity []byte, at, present int) {
	var null T
	from := present - 1
	for to := len(out) - 1; to >= 0; to-- {
		if bitutil.BitIsSet(validity, at+to) {
			out[to] = out[from]
			from--
		} else {
			out[to] = null
		}
	}
}

// Release frees the memory of the pages.
func (l *valueDecoder) Release() {
	if l.last != nil {
		l.pages.Scratch().Free(l.last)
	}
	l.pages.Release()
	l.dictionary, l.values, l.deltas, l.last = nil, nil, nil, nil
}
