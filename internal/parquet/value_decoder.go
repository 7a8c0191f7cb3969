package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/parquet"
)

// valueDecoder decodes the values of a primitive column of 4 or 8 bytes, plain or
// dictionary-encoded. It does not look at levels, which encode nulls and lists.
type valueDecoder struct {
	pages *pages
	width int // bytes of a value; 0: variable

	dictionary []byte     // values of the dictionary page; nil before it is read
	entries    int        // number of values in it
	values     []byte     // of the open page, if plain
	indices    rleDecoder // into dictionary, of the open page
	indexed    bool       // whether the open page has indices instead of values
}

var errSurplus = errors.New("a page has more values or levels than rows")

// leafWidth returns the width in bytes of a leaf's values if valueDecoder can decode its
// pages in a row group, and 0 otherwise. kind is the leaf's Arrow type in the library.
func (f *Footer) leafWidth(group, leaf int, kind arrow.DataType) int {
	if !f.plainOrDictionary(group, leaf) {
		return 0
	}
	stored := f.meta.Schema.Column(leaf).PhysicalType()
	switch kind.ID() {
	case arrow.INT32, arrow.DATE32, arrow.TIME32, arrow.FLOAT32:
		if stored == parquet.Types.Int32 || stored == parquet.Types.Float {
			return 4
		}
	case arrow.INT64, arrow.FLOAT64, arrow.TIME64, arrow.TIMESTAMP:
		if stored == parquet.Types.Int64 || stored == parquet.Types.Double {
			return 8
		}
	}
	return 0
}

// plainOrDictionary reports whether all pages of a leaf's chunk are plain or
// dictionary-encoded.
func (f *Footer) plainOrDictionary(group, leaf int) bool {
	for _, e := range f.meta.RowGroups[group].Columns[leaf].MetaData.Encodings {
		switch parquet.Encoding(e) {
		case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE:
		default:
			return false
		}
	}
	return true
}

// next returns the next data page, which is valid until the next call, or nil after the
// last. It keeps the dictionary page, which precedes the data pages. All values of the
// previous page must have been taken.
func (l *valueDecoder) next() (*page, error) {
	if len(l.values) > 0 || !l.indices.exhausted() { // levels decoded as values, for example
		return nil, errSurplus
	}
	for {
		next, err := l.pages.next()
		if next == nil || err != nil {
			return nil, err
		}
		if !next.dictionary {
			return next, nil
		}
		if l.dictionary != nil {
			return nil, errors.New("a column has two dictionaries")
		}
		if l.width > 0 && len(next.values) != next.count*l.width {
			return nil, fmt.Errorf("a dictionary of %d values has %d bytes", next.count, len(next.values))
		}
		l.dictionary, l.entries = next.values, next.count
	}
}

// open starts decoding the values of a page.
func (l *valueDecoder) open(p *page) error {
	l.values, l.indices, l.indexed = p.values, rleDecoder{}, false
	switch p.encoding {
	case parquet.Encodings.Plain:
		return nil
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		var err error
		l.indexed, l.values = true, nil
		l.indices, err = indicesOf(p.values)
		return err
	default:
		return fmt.Errorf("a page is encoded as %s, which its row group does not list", p.encoding)
	}
}

// indicesOf returns the decoder of a page's indices, which start with their width.
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
	if l.indexed {
		return l.indices.skip(n)
	}
	if len(l.values) < n*l.width {
		return errValuesMissing
	}
	l.values = l.values[n*l.width:]
	return nil
}

// errValuesMissing is the error of a page that ends early.
var errValuesMissing = errors.New("a page has fewer values than rows")

// spread moves the values at the front of out to their positions and zeroes the nulls. at
// is the offset of out's validity in bits.
func (l *valueDecoder) spread(out, validity []byte, at, present int) {
	if l.width == 4 {
		spread(arrow.Uint32Traits.CastFromBytes(out), validity, at, present)
	} else {
		spread(arrow.Uint64Traits.CastFromBytes(out), validity, at, present)
	}
}

// spread works backwards, so no value is overwritten before it is moved.
func spread[T uint32 | uint64](out []T, validity []byte, at, present int) {
	from := present - 1
	for to := len(out) - 1; to >= 0; to-- {
		if bitutil.BitIsSet(validity, at+to) {
			out[to] = out[from]
			from--
		} else {
			out[to] = 0
		}
	}
}

// release frees the memory of the pages.
func (l *valueDecoder) release() {
	l.pages.release()
	l.dictionary, l.values = nil, nil
}
