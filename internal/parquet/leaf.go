package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// leaf takes the values of a primitive column of 4 or 8 bytes out of its
// pages, plain or by a dictionary. What is null, and where lists begin, is
// told by levels that it does not look at.
type leaf struct {
	pages file.PageReader
	width int // bytes of a value

	dictionary []byte // the values of the dictionary page; nil before it
	values     []byte // of the open page, plain
	indices    hybrid // of the open page, into dictionary
	coded      bool   // the open page has indices, not values
}

// leafWidth returns the bytes of a value if a leaf's pages in a row group can
// be read by leaf, else 0. kind is the Arrow type that the library gives it.
func (f *Footer) leafWidth(group, leaf int, kind arrow.DataType) int {
	for _, e := range f.meta.RowGroups[group].Columns[leaf].MetaData.Encodings {
		switch parquet.Encoding(e) {
		case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE:
		default:
			return 0
		}
	}
	stored := f.meta.Schema.Column(leaf).PhysicalType()
	switch kind.ID() {
	case arrow.INT32, arrow.DATE32, arrow.FLOAT32:
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

// next returns the next data page, which is valid until the next call; nil
// after the last. It keeps the dictionary that stands before them.
func (l *leaf) next() (file.Page, error) {
	for l.pages.Next() {
		page := l.pages.Page()
		dictionary, ok := page.(*file.DictionaryPage)
		if !ok {
			return page, nil
		}
		if l.dictionary != nil {
			return nil, errors.New("a column has two dictionaries")
		}
		l.dictionary = dictionary.Data()
		if len(l.dictionary) != int(dictionary.NumValues())*l.width {
			return nil, fmt.Errorf("a dictionary of %d values has %d bytes", dictionary.NumValues(), len(l.dictionary))
		}
	}
	return nil, l.pages.Err()
}

// open begins with the values of a page, which stand behind its levels.
func (l *leaf) open(page file.Page, body []byte) error {
	l.values, l.indices, l.coded = body, hybrid{}, false
	switch encoding := parquet.Encoding(page.Encoding()); encoding {
	case parquet.Encodings.Plain:
		return nil
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		l.coded, l.values = true, nil
		if len(body) == 0 { // a page of nulls alone may leave out the width
			return nil
		}
		if body[0] > 32 {
			return fmt.Errorf("dictionary indices have %d bits", body[0])
		}
		l.indices = hybrid{rest: body[1:], width: int(body[0])}
		return nil
	default:
		return fmt.Errorf("a page is encoded as %s, which its row group does not list", encoding)
	}
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
	_ = l.pages.Close() // nothing is written
	l.dictionary, l.values = nil, nil
}

// pageLevels are the stored levels of a page.
type pageLevels struct{ repetition, definition []byte }

var errPageShort = errors.New("a page is shorter than its levels")

// splitLevels parts a page into its levels, of those kinds that the column
// has, and its values.
func splitLevels(page file.Page, repeated, optional bool) (pageLevels, []byte, error) {
	var out pageLevels
	switch page := page.(type) {
	case *file.DataPageV1:
		return splitLevelsV1(page, repeated, optional)
	case *file.DataPageV2:
		body := page.Data()
		repetition, definition := int(page.RepetitionLevelByteLen()), int(page.DefinitionLevelByteLen())
		if !repeated && repetition != 0 || repetition+definition > len(body) {
			return out, nil, errPageShort
		}
		out.repetition, out.definition = body[:repetition], body[repetition:repetition+definition]
		return out, body[repetition+definition:], nil
	default:
		return out, nil, fmt.Errorf("a page of type %s stands among data pages", page.Type())
	}
}

// splitLevelsV1 reads the length that stands before levels of each kind.
func splitLevelsV1(page *file.DataPageV1, repeated, optional bool) (pageLevels, []byte, error) {
	var out pageLevels
	body := page.Data()
	for _, kind := range []struct {
		there    bool
		encoding parquet.Encoding
		into     *[]byte
	}{
		{repeated, page.RepetitionLevelEncoding(), &out.repetition},
		{optional, page.DefinitionLevelEncoding(), &out.definition},
	} {
		if !kind.there {
			continue
		}
		if kind.encoding != parquet.Encodings.RLE {
			return out, nil, fmt.Errorf("levels are encoded as %s", kind.encoding)
		}
		if len(body) < 4 {
			return out, nil, errPageShort
		}
		length := uint64(binary.LittleEndian.Uint32(body))
		if length > uint64(len(body)-4) {
			return out, nil, errPageShort
		}
		*kind.into, body = body[4:4+length], body[4+length:]
	}
	return out, body, nil
}
