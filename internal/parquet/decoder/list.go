package decoder

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/page"
)

// listColumn decodes a column of lists of numbers, decimals or fixed-length bytes that are plain or
// dictionary-encoded. Histories and embeddings are such columns, and take most of the bytes of many
// staging tables. The library looks at each level several times, and clears and copies values;
// listColumn skips runs of equal levels and decodes values in place.
type listColumn struct {
	valueDecoder
	kind   *arrow.ListType
	lists  bool // whether lists are nullable
	levels listLevels

	rowsLeft   int64 // according to the row group, only to estimate sizes; the pages determine where the column ends
	levelsLeft int64
}

// newListColumn returns a listColumn for the chunk of a top-level column, or nil if a listColumn
// cannot decode the column. from has the pages of the chunk, and rows is their number of rows
// according to the footer.
func newListColumn(of *page.Chunk, field arrow.Field, rows int64, from *page.Reader) *listColumn {
	kind, ok := field.Type.(*arrow.ListType)
	if !ok {
		return nil
	}
	some := 1 + level(field.Nullable)
	element := some + level(kind.ElemField().Nullable)
	form, width := leafForm(of, kind.Elem())
	if width == 0 || of.Column.MaxRepetitionLevel() != 1 || int(of.Column.MaxDefinitionLevel()) != element {
		return nil
	}
	return &listColumn{
		valueDecoder: newValueDecoder(from, form, width), kind: kind, lists: field.Nullable,
		levels:   listLevels{element: element, minElement: some},
		rowsLeft: rows, levelsLeft: of.Values,
	}
}

// level returns 1 if a field is optional or repeated and so adds a definition level, and otherwise
// 0.
func level(adds bool) int {
	if adds {
		return 1
	}
	return 0
}

// Read decodes the next rows into memory from mem. It returns fewer rows than asked for only at the
// end of the column. Values under nulls are zero. The caller releases the result.
func (c *listColumn) Read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	out := newListBuilder(c, mem)
	defer out.release()
	out.prepare(c, rows)
	for {
		more, err := c.load()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if out.rows == 0 && !c.levels.startsRow() {
			return nil, errContinued
		}
		if err := c.readWindow(out, rows); err != nil {
			return nil, err
		}
		if c.levels.at < c.levels.size { // the next level starts a new row
			break
		}
	}
	c.rowsLeft -= int64(out.rows)
	return out.finish(c), nil
}

// Skip implements Column.
func (c *listColumn) Skip(rows int) error {
	passed := &listBuilder{dropped: true}
	for passed.rows < rows || c.levels.at == c.levels.size {
		more, err := c.load()
		if err != nil {
			return err
		}
		if !more {
			if passed.rows < rows {
				return ErrRowsMissing
			}
			return nil
		}
		if passed.rows == 0 && !c.levels.startsRow() {
			return errContinued
		}
		from := c.levels.at
		_, present, err := c.levels.read(passed, rows)
		if err != nil {
			return err
		}
		c.levelsLeft -= int64(c.levels.at - from)
		if err := c.pass(present); err != nil {
			return err
		}
	}
	c.rowsLeft -= int64(rows)
	return nil
}

// load makes sure that a level can be read. It returns false at the end of the column.
func (c *listColumn) load() (bool, error) {
	for {
		ready, err := c.levels.load()
		if ready || err != nil {
			return ready, err
		}
		if !c.levels.repetition.exhausted() || !c.levels.definition.exhausted() {
			return false, errSurplus
		}
		next, err := c.next()
		if next == nil {
			return false, err
		}
		c.levels.open(next)
		if err := c.open(next); err != nil {
			return false, err
		}
	}
}

// readWindow reads levels of the current window, and the values of these levels, until out has the
// given number of rows or the window ends.
func (c *listColumn) readWindow(out *listBuilder, rows int) error {
	from := c.levels.at
	elements, present, err := c.levels.read(out, rows)
	if err != nil {
		return err
	}
	c.levelsLeft -= int64(c.levels.at - from)
	if err := out.reserve(elements); err != nil {
		return err
	}
	validity := out.elementBits.Bytes()
	if out.nullable {
		c.levels.mark(validity, from, out.elements)
	}
	values := out.values.Bytes()[out.elements*out.size:][:elements*out.size]
	if err := c.take(values[:present*out.size], present); err != nil {
		return err
	}
	if present < elements {
		c.spread(values, validity, out.elements, present)
	}
	out.elements, out.present = out.elements+elements, out.present+present
	return nil
}

// listBuilder collects the rows of a listColumn.
type listBuilder struct {
	size     int  // size of an element in bytes
	nullable bool // whether elements are nullable
	dropped  bool // whether the rows are only counted
	capacity int  // number of elements for which values and elementBits have room

	rows, nulls       int
	elements, present int
	last              int // the previous definition level

	offsets, listBits   *memory.Buffer
	values, elementBits *memory.Buffer
}

func newListBuilder(c *listColumn, mem memory.Allocator) *listBuilder {
	return &listBuilder{
		size: c.size(), nullable: c.levels.element > c.levels.minElement,
		offsets: memory.NewResizableBuffer(mem), listBits: memory.NewResizableBuffer(mem),
		values: memory.NewResizableBuffer(mem), elementBits: memory.NewResizableBuffer(mem),
	}
}

// maxExpected bounds the number of elements for which memory is allocated before their levels are
// read, because a damaged footer may declare any number of elements.
const maxExpected = 4 << 20

// expectedSlack is the reciprocal of the share of memory that is allocated in addition to that of
// the expected elements. Without it, half of all batches would have too little memory, and their
// values would be copied.
const expectedSlack = 32

// prepare allocates memory for rows that have the average number of elements of the column's
// remaining rows.
func (r *listBuilder) prepare(c *listColumn, rows int) {
	r.offsets.Resize((rows + 1) * arrow.Int32SizeBytes)
	if c.lists {
		batch.ResizeBits(r.listBits, rows)
	}
	if int64(rows) <= c.rowsLeft && c.levelsLeft > 0 {
		share := float64(rows) / float64(c.rowsLeft)
		expected := share * float64(c.levelsLeft)
		r.grow(int(min(math.Ceil(expected+expected/expectedSlack), maxExpected)))
	}
}

// begin adds a row. elements is the number of elements before the row whose values are not decoded
// yet.
func (r *listBuilder) begin(elements int, list bool) {
	if r.dropped {
		r.rows++
		return
	}
	arrow.Int32Traits.CastFromBytes(r.offsets.Bytes())[r.rows] = int32(r.elements + elements)
	switch {
	case !list:
		r.nulls++
	case r.listBits.Len() > 0:
		bitutil.SetBit(r.listBits.Bytes(), r.rows)
	}
	r.rows++
}

// reserve makes room for more elements.
func (r *listBuilder) reserve(more int) error {
	wanted := r.elements + more
	if wanted > math.MaxInt32 {
		return fault.New(fault.Exhausted, "%d rows are too large for one batch", r.rows).WithRemedy("ask for fewer rows per batch")
	}
	if wanted > r.capacity {
		r.grow(max(wanted, r.capacity+r.capacity/4))
	}
	return nil
}

func (r *listBuilder) grow(room int) {
	r.values.Resize(room * r.size)
	if r.nullable {
		had := r.elementBits.Len()
		r.elementBits.Resize(int(bitutil.BytesForBits(int64(room))))
		clear(r.elementBits.Bytes()[had:])
	}
	r.capacity = room
}

// finish returns the rows as an array.
func (r *listBuilder) finish(c *listColumn) arrow.ArrayData {
	r.offsets.Resize((r.rows + 1) * arrow.Int32SizeBytes)
	arrow.Int32Traits.CastFromBytes(r.offsets.Bytes())[r.rows] = int32(r.elements)
	r.values.Resize(r.elements * r.size)
	elements := []*memory.Buffer{nil, r.values}
	if r.present < r.elements {
		elements[0] = r.elementBits
	}
	lists := []*memory.Buffer{nil, r.offsets}
	if r.nulls > 0 {
		lists[0] = r.listBits
	}
	child := array.NewData(c.kind.Elem(), r.elements, elements, nil, r.elements-r.present, 0)
	defer child.Release()
	return array.NewData(c.kind, r.rows, lists, []arrow.ArrayData{child}, r.nulls, 0)
}

func (r *listBuilder) release() {
	batch.ReleaseAll(r.offsets, r.listBits, r.values, r.elementBits)
}
