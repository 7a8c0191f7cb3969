package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// flatColumn decodes a column of 4- or 8-byte values that is not nested, and
// plain or dictionary encoded: most columns of a training table. The library
// decodes these too, but it grows each dictionary step by step, which costs as
// much as the rest of the work and fills the heap with what it outgrew. Pages
// are still the library's to read and decompress.
type flatColumn struct {
	pages    file.PageReader
	kind     arrow.DataType
	width    int
	optional bool

	dictionary []byte // the values of the dictionary page; nil before it
	values     []byte // of the open page, plain
	indices    hybrid // of the open page, into dictionary
	coded      bool   // the open page has indices, not values
	levels     hybrid // definition levels of the open page
	left       int    // rows of the open page that are not out, nulls included
}

// flatWidth returns the bytes of a value if a leaf can be read by flatColumn
// in a row group, else 0. kind is the Arrow type that the library gives it.
func (f *Footer) flatWidth(group, leaf int, kind arrow.DataType) int {
	column := f.meta.Schema.Column(leaf)
	chunk := f.meta.RowGroups[group].Columns[leaf].MetaData
	if column.MaxRepetitionLevel() > 0 || column.MaxDefinitionLevel() > 1 {
		return 0
	}
	for _, e := range chunk.Encodings {
		switch parquet.Encoding(e) {
		case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLEDict, parquet.Encodings.RLE:
		default:
			return 0
		}
	}
	switch kind.ID() {
	case arrow.INT32, arrow.DATE32, arrow.FLOAT32:
		if p := column.PhysicalType(); p == parquet.Types.Int32 || p == parquet.Types.Float {
			return 4
		}
	case arrow.INT64, arrow.FLOAT64, arrow.TIME64, arrow.TIMESTAMP:
		if p := column.PhysicalType(); p == parquet.Types.Int64 || p == parquet.Types.Double {
			return 8
		}
	}
	return 0
}

// read decodes the next rows into memory of mem; fewer only at the end of the
// column. Values under nulls are zero. The caller releases the result.
func (c *flatColumn) read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	values.Resize(rows * c.width)
	validity := memory.NewResizableBuffer(mem)
	defer validity.Release()
	if c.optional {
		validity.Resize(int(bitutil.BytesForBits(int64(rows))))
		clear(validity.Bytes())
	}
	at, nulls := 0, 0
	for at < rows {
		if c.left == 0 {
			more, err := c.nextPage()
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
			continue
		}
		n := min(rows-at, c.left)
		absent, err := c.decode(values.Bytes()[at*c.width:(at+n)*c.width], validity.Bytes(), at, n)
		if err != nil {
			return nil, err
		}
		at, nulls, c.left = at+n, nulls+absent, c.left-n
	}
	buffers := []*memory.Buffer{nil, values}
	if nulls > 0 {
		buffers[0] = validity
	}
	return array.NewData(c.kind, at, buffers, nil, nulls, 0), nil
}

// decode decodes n rows of the open page and returns how many are null. at is
// where their validity begins, in bits.
func (c *flatColumn) decode(out, validity []byte, at, n int) (int, error) {
	present := n
	if c.optional {
		var err error
		if present, err = c.levels.present(validity, at, n); err != nil {
			return 0, err
		}
	}
	dense := out[:present*c.width]
	switch {
	case !c.coded:
		if len(c.values) < len(dense) {
			return 0, errors.New("a page has fewer values than rows")
		}
		copy(dense, c.values)
		c.values = c.values[len(dense):]
	default:
		if err := c.lookUp(dense, present); err != nil {
			return 0, err
		}
	}
	if present < n {
		if c.width == 4 {
			spread(arrow.Uint32Traits.CastFromBytes(out), validity, at, present)
		} else {
			spread(arrow.Uint64Traits.CastFromBytes(out), validity, at, present)
		}
	}
	return n - present, nil
}

func (c *flatColumn) lookUp(dense []byte, present int) error {
	if c.width == 4 {
		return gather(&c.indices, arrow.Uint32Traits.CastFromBytes(dense), arrow.Uint32Traits.CastFromBytes(c.dictionary), present)
	}
	return gather(&c.indices, arrow.Uint64Traits.CastFromBytes(dense), arrow.Uint64Traits.CastFromBytes(c.dictionary), present)
}

// spread moves dense values to the rows that have one, from the back, and
// zeroes the others.
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

// nextPage opens the next data page; false after the last.
func (c *flatColumn) nextPage() (bool, error) {
	for c.pages.Next() {
		switch page := c.pages.Page().(type) {
		case *file.DictionaryPage:
			if c.dictionary != nil {
				return false, errors.New("a column has two dictionaries")
			}
			c.dictionary = page.Data()
			if len(c.dictionary) != int(page.NumValues())*c.width {
				return false, fmt.Errorf("a dictionary of %d values has %d bytes", page.NumValues(), len(c.dictionary))
			}
		case *file.DataPageV1:
			return true, c.openV1(page)
		case *file.DataPageV2:
			return true, c.openV2(page)
		}
	}
	return false, c.pages.Err()
}

// openV1 opens a page whose levels stand before its values, with their length.
func (c *flatColumn) openV1(page *file.DataPageV1) error {
	body := page.Data()
	if c.optional {
		if page.DefinitionLevelEncoding() != parquet.Encodings.RLE {
			return fmt.Errorf("definition levels are encoded as %s", page.DefinitionLevelEncoding())
		}
		if len(body) < 4 {
			return errPageShort
		}
		length := uint64(binary.LittleEndian.Uint32(body))
		if length > uint64(len(body)-4) {
			return errPageShort
		}
		c.levels = hybrid{rest: body[4 : 4+length], width: 1}
		body = body[4+length:]
	}
	return c.openValues(page, body)
}

func (c *flatColumn) openV2(page *file.DataPageV2) error {
	body, length := page.Data(), int(page.DefinitionLevelByteLen())
	if page.RepetitionLevelByteLen() != 0 || length > len(body) {
		return errPageShort
	}
	c.levels = hybrid{rest: body[:length], width: 1}
	return c.openValues(page, body[length:])
}

var errPageShort = errors.New("a page is shorter than its levels")

func (c *flatColumn) openValues(page file.Page, body []byte) error {
	c.left, c.values, c.indices, c.coded = int(page.NumValues()), body, hybrid{}, false
	switch encoding := parquet.Encoding(page.Encoding()); encoding {
	case parquet.Encodings.Plain:
		return nil
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		c.coded, c.values = true, nil
		if len(body) == 0 { // a page of nulls alone may leave out the width
			return nil
		}
		if body[0] > 32 {
			return fmt.Errorf("dictionary indices have %d bits", body[0])
		}
		c.indices = hybrid{rest: body[1:], width: int(body[0])}
		return nil
	default:
		return fmt.Errorf("a page is encoded as %s, which its row group does not list", encoding)
	}
}

// close gives the pages' memory back.
func (c *flatColumn) close() {
	_ = c.pages.Close() // nothing is written
	c.dictionary, c.values = nil, nil
}
