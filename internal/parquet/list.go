package parquet

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// listColumn decodes a column of lists of 4- or 8-byte values, plain or
// dictionary encoded: histories and embeddings, most bytes of many staging
// tables. The library looks at each level several times and clears and copies
// the values before they are in place; here levels that are all alike are
// skipped and values are decoded where they stay.
type listColumn struct {
	leaf
	kind   *arrow.ListType
	lists  bool // lists may be null
	levels listLevels

	rowsLeft   int64 // of the row group; an estimate, as the pages say the truth
	levelsLeft int64
}

// newListColumn returns a decoder if a top-level column can be read by
// listColumn in a row group, else nil. Its pages are for the caller to set.
func (f *Footer) newListColumn(group int, field Field) *listColumn {
	kind, ok := field.arrow.Type.(*arrow.ListType)
	if !ok || len(field.Leaves) != 1 {
		return nil
	}
	at := field.Leaves[0]
	described := f.meta.Schema.Column(at)
	some := 1 + level(field.arrow.Nullable)
	element := some + level(kind.ElemField().Nullable)
	width := f.leafWidth(group, at, kind.Elem())
	if width == 0 || described.MaxRepetitionLevel() != 1 || int(described.MaxDefinitionLevel()) != element {
		return nil
	}
	return &listColumn{
		leaf: leaf{width: width}, kind: kind, lists: field.arrow.Nullable,
		levels:   listLevels{element: element, some: some},
		rowsLeft: f.groups[group].Rows, levelsLeft: f.meta.RowGroups[group].Columns[at].MetaData.NumValues,
	}
}

// level is what an optional or repeated field adds to the definition levels.
func level(adds bool) int {
	if adds {
		return 1
	}
	return 0
}

// read decodes the next rows into memory of mem; fewer only at the end of the
// column. Values under nulls are zero. The caller releases the result.
func (c *listColumn) read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	out := newListRows(c, mem)
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
		if out.rows == 0 && !c.levels.begins() {
			return nil, errContinued
		}
		if err := c.readWindow(out, rows); err != nil {
			return nil, err
		}
		if c.levels.at < c.levels.size { // at the beginning of a row that is not wanted
			break
		}
	}
	c.rowsLeft -= int64(out.rows)
	return out.finish(c), nil
}

// load sees that a level is ready to be read; false at the end of the column.
func (c *listColumn) load() (bool, error) {
	for {
		ready, err := c.levels.load()
		if ready || err != nil {
			return ready, err
		}
		if !c.levels.repetition.spent() || !c.levels.definition.spent() {
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

// readWindow reads the open window's levels, as far as they are wanted, and
// the values that belong to them.
func (c *listColumn) readWindow(out *listRows, rows int) error {
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
	values := out.values.Bytes()[out.elements*c.width:][:elements*c.width]
	if err := c.take(values[:present*c.width], present); err != nil {
		return err
	}
	if present < elements {
		c.spread(values, validity, out.elements, present)
	}
	out.elements, out.present = out.elements+elements, out.present+present
	return nil
}

// listRows are lists as they are read.
type listRows struct {
	width    int
	nullable bool // elements may be null
	room     int  // elements that values and elementBits hold

	rows, nulls       int
	elements, present int
	last              int // the definition level before

	offsets, listBits   *memory.Buffer
	values, elementBits *memory.Buffer
}

func newListRows(c *listColumn, mem memory.Allocator) *listRows {
	return &listRows{
		width: c.width, nullable: c.levels.element > c.levels.some,
		offsets: memory.NewResizableBuffer(mem), listBits: memory.NewResizableBuffer(mem),
		values: memory.NewResizableBuffer(mem), elementBits: memory.NewResizableBuffer(mem),
	}
}

// mostExpected bounds the elements that room is made for before their levels
// were seen: a damaged footer may promise any number.
const mostExpected = 4 << 20

// prepare makes room for rows of as many elements as the column has left on
// average.
func (r *listRows) prepare(c *listColumn, rows int) {
	r.offsets.Resize((rows + 1) * arrow.Int32SizeBytes)
	if c.lists {
		r.listBits.Resize(int(bitutil.BytesForBits(int64(rows))))
		clear(r.listBits.Bytes())
	}
	if int64(rows) <= c.rowsLeft && c.levelsLeft > 0 {
		share := float64(rows) / float64(c.rowsLeft)
		r.grow(int(min(math.Ceil(share*float64(c.levelsLeft)), mostExpected)))
	}
}

// begin adds a row, whose elements begin so many behind those that are in
// place.
func (r *listRows) begin(elements int, list bool) {
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
func (r *listRows) reserve(more int) error {
	wanted := r.elements + more
	if wanted > math.MaxInt32 {
		return fault.New(fault.Exhausted, "%d rows are too large for one batch", r.rows).WithRemedy("ask for fewer rows per batch")
	}
	if wanted > r.room {
		r.grow(max(wanted, r.room+r.room/2))
	}
	return nil
}

func (r *listRows) grow(room int) {
	r.values.Resize(room * r.width)
	if r.nullable {
		had := r.elementBits.Len()
		r.elementBits.Resize(int(bitutil.BytesForBits(int64(room))))
		clear(r.elementBits.Bytes()[had:])
	}
	r.room = room
}

// finish makes the rows an array.
func (r *listRows) finish(c *listColumn) arrow.ArrayData {
	r.offsets.Resize((r.rows + 1) * arrow.Int32SizeBytes)
	arrow.Int32Traits.CastFromBytes(r.offsets.Bytes())[r.rows] = int32(r.elements)
	r.values.Resize(r.elements * r.width)
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

func (r *listRows) release() {
	for _, b := range []*memory.Buffer{r.offsets, r.listBits, r.values, r.elementBits} {
		b.Release()
	}
}
