package parquet

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/fault"
)

var errDictionary = errors.New("a dictionary has other values than it counts")

// textColumn decodes a column of strings or bytes that is not nested, and plain or
// dictionary encoded. The library decodes these too, but its dictionary cannot be
// looked at: to know how large rows may come out, it would be decompressed twice; and
// it appends one value after the other.
type textColumn struct {
	leaf
	kind     arrow.DataType
	optional bool

	begun   bool     // first holds what pages began with
	first   *page    // the first data page, until it is opened
	ended   error    // why the pages could not begin
	views   []uint64 // of the dictionary's values, see view; memory of the pages' scratch
	longest int64    // bytes of a value of the dictionary

	levels hybrid // definition levels of the open page
	left   int    // rows of the open page that are not out, nulls included
}

// viewBytes is what a view takes.
const viewBytes = 8

// A view says where a value lies: its start in the upper half, its length in the lower.
func view(start, length int) uint64 { return uint64(start)<<32 | uint64(length) }

func viewed(s uint64) (start, length int) { return int(s >> 32), int(s & math.MaxUint32) }

// newTextColumn returns a decoder if a top-level column can be read by textColumn in
// a row group, else nil. Its pages are for the caller to set.
func (f *Footer) newTextColumn(group int, field Field) *textColumn {
	at := field.Leaves[0]
	described := f.meta.Schema.Column(at)
	if described.MaxRepetitionLevel() > 0 || described.MaxDefinitionLevel() > 1 || described.PhysicalType() != parquet.Types.ByteArray {
		return nil
	}
	if id := field.arrow.Type.ID(); id != arrow.STRING && id != arrow.BINARY || !f.plainOrCoded(group, at) {
		return nil
	}
	return &textColumn{kind: field.arrow.Type, optional: described.MaxDefinitionLevel() > 0}
}

// begin reads the dictionary, if there is one, which stands before the data.
func (c *textColumn) begin() error {
	if c.begun {
		return c.ended
	}
	c.begun = true
	c.first, c.ended = c.next()
	return c.ended
}

// next returns the next data page; nil after the last. It keeps the dictionary.
func (c *textColumn) next() (*page, error) {
	known := c.dictionary != nil
	next, err := c.leaf.next()
	if err == nil && !known && c.dictionary != nil {
		err = c.index()
	}
	return next, err
}

// longestValue returns the bytes of the longest value of the dictionary.
func (c *textColumn) longestValue() (int64, error) {
	err := c.begin()
	return c.longest, err
}

// index finds the values of the dictionary.
func (c *textColumn) index() error {
	if c.entries > len(c.dictionary)/4 {
		return errDictionary
	}
	if c.entries > 0 {
		c.views = arrow.Uint64Traits.CastFromBytes(c.pages.scratch.Allocate(c.entries * viewBytes))
	}
	at := 0
	for i := range c.views {
		length, ok := textAt(c.dictionary, at)
		if !ok {
			return errDictionary
		}
		c.views[i] = view(at+4, length)
		c.longest = max(c.longest, int64(length))
		at += 4 + length
	}
	if at != len(c.dictionary) {
		return errDictionary
	}
	return nil
}

// textAt returns the length of the plain value at a position; false if it is not
// whole.
func textAt(values []byte, at int) (int, bool) {
	if len(values)-at < 4 {
		return 0, false
	}
	length := int64(binary.LittleEndian.Uint32(values[at:]))
	return int(length), length <= int64(len(values)-at-4)
}

// nextPage opens the next data page; false after the last.
func (c *textColumn) nextPage() (bool, error) {
	if !c.levels.spent() {
		return false, errSurplus
	}
	if err := c.begin(); err != nil {
		return false, err
	}
	next, err := c.first, error(nil)
	if c.first = nil; next == nil {
		next, err = c.next()
	}
	if next == nil || err != nil {
		return false, err
	}
	c.levels = hybrid{rest: next.definition, width: 1}
	c.left = next.count
	return true, c.open(next)
}

// read decodes the next rows into memory of mem; fewer only at the end of the
// column. The caller releases the result.
func (c *textColumn) read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	out := newTexts(mem)
	defer out.release()
	out.prepare(rows, c.optional)
	if _, err := pageByPage(rows, &c.left, c.nextPage, func(_, n int) error { return c.decode(out, n) }); err != nil {
		return nil, err
	}
	return out.finish(c.kind), nil
}

// decode decodes n rows of the open page.
func (c *textColumn) decode(out *texts, n int) error {
	present := n
	if c.optional {
		var err error
		if present, err = c.levels.present(out.validity.Bytes(), out.rows, n); err != nil {
			return err
		}
	}
	take := c.takePlain
	if c.coded {
		take = c.takeCoded
	}
	if err := take(out, present); err != nil {
		return err
	}
	out.spread(n, present)
	return nil
}

// takePlain appends the next n values of the open page.
func (c *textColumn) takePlain(out *texts, n int) error {
	at := 0
	for range n {
		length, ok := textAt(c.values, at)
		if !ok {
			return errors.New("a page has fewer values than rows")
		}
		at += 4 + length
	}
	if err := out.reserve(at - 4*n); err != nil {
		return err
	}
	ends := out.ends(n)
	at = 0
	for i := range ends {
		length, _ := textAt(c.values, at)
		ends[i] = out.add(c.values[at+4 : at+4+length])
		at += 4 + length
	}
	c.values = c.values[at:]
	return nil
}

// textWindow is how many indices are looked up at a time.
const textWindow = 512

// takeCoded appends the values at the next n indices of the open page. Their length
// is known before the first of them is copied.
func (c *textColumn) takeCoded(out *texts, n int) error {
	var window [textWindow]uint64
	ahead, bytes := c.indices, 0
	for left := n; left > 0; left -= textWindow {
		found := window[:min(left, textWindow)]
		if err := gather(&ahead, found, c.views, len(found)); err != nil {
			return err
		}
		for _, s := range found {
			_, length := viewed(s)
			bytes += length
		}
	}
	if err := out.reserve(bytes); err != nil {
		return err
	}
	ends := out.ends(n)
	for len(ends) > 0 {
		found := window[:min(len(ends), textWindow)]
		if err := gather(&c.indices, found, c.views, len(found)); err != nil {
			return err
		}
		for i, s := range found {
			start, length := viewed(s)
			ends[i] = out.add(c.dictionary[start : start+length])
		}
		ends = ends[len(found):]
	}
	return nil
}

// close gives the memory back.
func (c *textColumn) close() {
	if c.views != nil {
		c.pages.scratch.Free(arrow.Uint64Traits.CastToBytes(c.views))
	}
	c.leaf.close()
	c.views, c.first = nil, nil
}

// texts are strings as they are read.
type texts struct {
	rows, nulls int
	bytes       int // of all values so far

	offsets, values, validity *memory.Buffer
	starts                    []int32 // in offsets
}

func newTexts(mem memory.Allocator) *texts {
	return &texts{offsets: memory.NewResizableBuffer(mem), values: memory.NewResizableBuffer(mem), validity: memory.NewResizableBuffer(mem)}
}

// prepare makes room for rows.
func (t *texts) prepare(rows int, optional bool) {
	t.offsets.Resize((rows + 1) * arrow.Int32SizeBytes)
	t.starts = arrow.Int32Traits.CastFromBytes(t.offsets.Bytes())
	t.starts[0] = 0
	if optional {
		t.validity.Resize(int(bitutil.BytesForBits(int64(rows))))
		clear(t.validity.Bytes())
	}
}

// reserve makes room for more bytes.
func (t *texts) reserve(more int) error {
	wanted := t.bytes + more
	if wanted > math.MaxInt32 {
		return fault.New(fault.Exhausted, "the strings of %d rows are too large for one batch", len(t.starts)-1).WithRemedy("ask for fewer rows per batch")
	}
	if room := t.values.Len(); wanted > room {
		if room > 0 { // of a page before: there may be many small ones
			wanted = max(wanted, room+room/2)
		}
		t.values.Resize(wanted)
	}
	return nil
}

// ends returns where the ends of the next n values belong.
func (t *texts) ends(n int) []int32 { return t.starts[t.rows+1 : t.rows+1+n] }

// add appends a value and returns where it ends.
func (t *texts) add(value []byte) int32 {
	t.bytes += copy(t.values.Bytes()[t.bytes:], value)
	return int32(t.bytes)
}

// spread adds n rows, whose ends are in place for those that are not null, and moves
// these to their rows. It goes from the back, so that no end is overwritten before it
// moved. A null ends where the row before it does.
func (t *texts) spread(n, present int) {
	if present < n {
		ends, before := t.ends(n), t.starts[t.rows]
		from := present - 1
		for to := n - 1; to >= 0; to-- {
			end := before
			if from >= 0 {
				end = ends[from]
			}
			ends[to] = end
			if bitutil.BitIsSet(t.validity.Bytes(), t.rows+to) {
				from--
			}
		}
	}
	t.rows, t.nulls = t.rows+n, t.nulls+n-present
}

// finish makes the rows an array.
func (t *texts) finish(kind arrow.DataType) arrow.ArrayData {
	t.offsets.Resize((t.rows + 1) * arrow.Int32SizeBytes)
	t.values.Resize(t.bytes)
	buffers := []*memory.Buffer{nil, t.offsets, t.values}
	if t.nulls > 0 {
		buffers[0] = t.validity
	}
	return array.NewData(kind, t.rows, buffers, nil, t.nulls, 0)
}

func (t *texts) release() {
	for _, b := range []*memory.Buffer{t.offsets, t.values, t.validity} {
		b.Release()
	}
}
