package decoder

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/page"
)

// flatColumn decodes a column of numbers, decimals or fixed-length bytes that is not nested, and
// plain or dictionary-encoded, as most columns of a training table are. The library decodes such
// columns too, but grows each dictionary step by step, which costs as much as the rest of the work
// and leaves garbage on the heap.
type flatColumn struct {
	valueDecoder
	kind     arrow.DataType
	optional bool

	levels rleDecoder // definition levels of the open page
	left   int        // rows of the open page that are not decoded yet, including nulls
}

// newFlatColumn returns a flatColumn for the chunk of a top-level column, or nil if a flatColumn
// cannot decode the column. from has the pages of the chunk.
func newFlatColumn(of *page.Chunk, field arrow.Field, from *page.Reader) *flatColumn {
	if of.Column.MaxRepetitionLevel() > 0 || of.Column.MaxDefinitionLevel() > 1 {
		return nil
	}
	form, width := leafForm(of, field.Type)
	if width == 0 {
		return nil
	}
	return &flatColumn{valueDecoder: newValueDecoder(from, form, width), kind: field.Type, optional: of.Column.MaxDefinitionLevel() > 0}
}

// Read decodes the next rows into memory from mem. It returns fewer rows than asked for only at the
// end of the column. Values under nulls are zero. The caller releases the result.
func (c *flatColumn) Read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	size := c.size()
	values.Resize(rows * size)
	validity := memory.NewResizableBuffer(mem)
	defer validity.Release()
	if c.optional {
		batch.ResizeBits(validity, rows)
	}
	nulls := 0
	at, err := pageByPage(rows, &c.left, c.nextPage, func(at, n int) error {
		absent, err := c.decode(values.Bytes()[at*size:(at+n)*size], validity.Bytes(), at, n)
		nulls += absent
		return err
	})
	if err != nil {
		return nil, err
	}
	buffers := []*memory.Buffer{nil, values}
	if nulls > 0 {
		buffers[0] = validity
	}
	return array.NewData(c.kind, at, buffers, nil, nulls, 0), nil
}

// pageByPage calls decode until it has decoded the given number of rows. Each call decodes at most
// left rows, the rest of the open page; when left is 0, pageByPage calls nextPage. at is the number
// of rows decoded before the call. pageByPage returns the number of decoded rows, which is smaller
// than rows only after the last page or on an error.
func pageByPage(rows int, left *int, nextPage func() (bool, error), decode func(at, n int) error) (at int, err error) {
	for at < rows {
		if *left == 0 {
			if more, err := nextPage(); !more || err != nil {
				return at, err
			}
			continue
		}
		n := min(rows-at, *left)
		if err := decode(at, n); err != nil {
			return at, err
		}
		at, *left = at+n, *left-n
	}
	return at, nil
}

// Skip implements Column.
func (c *flatColumn) Skip(rows int) error {
	return skipPages(rows, &c.left, c.nextPage, func(n int) error {
		present, err := c.levels.skipPresent(c.optional, n)
		if err != nil {
			return err
		}
		return c.pass(present)
	})
}

// ErrRowsMissing is the error for a column that ends early.
var ErrRowsMissing = errors.New("the pages have fewer rows than the row group")

// skipPages is pageByPage for rows that are skipped.
func skipPages(rows int, left *int, nextPage func() (bool, error), skip func(n int) error) error {
	at, err := pageByPage(rows, left, nextPage, func(_, n int) error { return skip(n) })
	if err == nil && at < rows {
		err = ErrRowsMissing
	}
	return err
}

// decode decodes n rows of the open page and returns the number of nulls. at is the offset of the
// rows' bits in validity.
func (c *flatColumn) decode(out, validity []byte, at, n int) (int, error) {
	present := n
	if c.optional {
		var err error
		if present, err = c.levels.defined(validity, at, n); err != nil {
			return 0, err
		}
	}
	if err := c.take(out[:present*c.size()], present); err != nil {
		return 0, err
	}
	if present < n {
		c.spread(out, validity, at, present)
	}
	return n - present, nil
}

// nextPage opens the next data page. It returns false after the last.
func (c *flatColumn) nextPage() (bool, error) {
	if !c.levels.exhausted() {
		return false, errSurplus
	}
	next, err := c.next()
	if next == nil {
		return false, err
	}
	c.levels = rleDecoder{rest: next.Definition, width: 1}
	c.left = next.Count
	return true, c.open(next)
}
