package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/parquet"
)

// leaf takes the values of a primitive column of 4 or 8 bytes out of its
// pages, plain or by a dictionary. What is null, and where lists begin, is
// told by levels that it does not look at.
type leaf struct {
	pages *pages
	width int // bytes of a value; 0: any

	dictionary []byte // the values of the dictionary page; nil before it
	entries    int    // so many
	values     []byte // of the open page, plain
	indices    hybrid // of the open page, into dictionary
	coded      bool   // the open page has indices, not values
}

var errSurplus = errors.New("a page has more values or levels than rows")

// leafWidth returns the bytes of a value if a leaf's pages in a row group can
// be read by leaf, else 0. kind is the Arrow type that the library gives it.
func (f *Footer) leafWidth(group, leaf int, kind arrow.DataType) int {
	if !f.plainOrCoded(group, leaf) {
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

// plainOrCoded says whether all pages of a leaf's chunk are plain or have indices
// into a dictionary.
func (f *Footer) plainOrCoded(group, leaf int) bool {
	for _, e := range f.meta.RowGroups[group].Columns[leaf].MetaData.Encodings {
		switch parquet.Encoding(e) {
		case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE:
		default:
			return false
		}
	}
	return true
}

// next returns the next data page, which is valid until the next call; nil
// after the last. It keeps the dictionary that stands before them. All values of
// the page before have been taken.
func (l *leaf) next() (*page, error) {
	if len(l.values) > 0 || !l.indices.spent() { // levels that were taken for values, say
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

// open begins with the values of a page.
func (l *leaf) open(p *page) error {
	l.values, l.indices, l.coded = p.values, hybrid{}, false
	switch p.encoding {
	case parquet.Encodings.Plain:
		return nil
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		var err error
		l.coded, l.values = true, nil
		l.indices, err = indicesOf(p.values)
		return err
	default:
		return fmt.Errorf("a page is encoded as %s, which its row group does not list", p.encoding)
	}
}

// indicesOf returns the indices of a page, which begin with their width.
func indicesOf(values []byte) (hybrid, error) {
	if len(values) == 0 { // a page of nulls alone may leave out the width
		return hybrid{}, nil
	}
	if values[0] > 32 {
		return hybrid{}, fmt.Errorf("dictionary indices have %d bits", values[0])
	}
	return hybrid{rest: values[1:], width: int(values[0])}, nil
}

// take moves the next n values of the open page to out, which is n values long.
func (l *leaf) take(out []byte, n int) error {
	switch {
	case !l.coded:
		if len(l.values) < len(out) {
			return errors.New("a page has fewer values than rows")
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

// spread moves the values at the front of out to the places that are not null,
// and zeroes the others. at is where the validity of out begins, in bits.
func (l *leaf) spread(out, validity []byte, at, present int) {
	if l.width == 4 {
		spread(arrow.Uint32Traits.CastFromBytes(out), validity, at, present)
	} else {
		spread(arrow.Uint64Traits.CastFromBytes(out), validity, at, present)
	}
}

// spread goes from the back, so that no value is overwritten before it moved.
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

// close gives the pages' memory back.
func (l *leaf) close() {
	l.pages.close()
	l.dictionary, l.values = nil, nil
}
