package decoder

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/page"
)

var errDictionary = errors.New("a dictionary does not have as many values as its header declares")

// Text decodes a column of strings or bytes that is not nested, and plain,
// dictionary-encoded or encoded as deltas. The library decodes these too, but it does not expose its
// dictionary, which would have to be decompressed twice to bound the size of rows, and it
// appends values one by one.
type Text struct {
	valueDecoder
	kind     arrow.DataType
	optional bool

	begun    bool            // whether the pages before first were read
	first    *page.Page      // the first data page, until it is opened
	beginErr error           // error of reading the pages up to first
	views    []uint64        // views of the dictionary's values, in scratch memory
	maxValue int64           // bytes of the dictionary's longest value
	coded    arrow.ArrayData // the dictionary's values if rows are returned as codes; otherwise nil

	levels rleDecoder // definition levels of the open page
	left   int        // rows of the open page that are not decoded yet, including nulls
}

// view packs the position of a value: its start in the upper half, its length in the
// lower.
func view(start, length int) uint64 { return uint64(start)<<32 | uint64(length) }

func unpackView(s uint64) (start, length int) { return int(s >> 32), int(s & math.MaxUint32) }

// newByteArrayColumn returns a Text for the chunk of a top-level column, or nil if a Text cannot
// decode the column. from has the pages of the chunk.
func newByteArrayColumn(of *page.Chunk, field arrow.Field, from *page.Reader) *Text {
	if of.Column.MaxRepetitionLevel() > 0 || of.Column.MaxDefinitionLevel() > 1 || of.Column.PhysicalType() != parquet.Types.ByteArray {
		return nil
	}
	if id := field.Type.ID(); id != arrow.STRING && id != arrow.BINARY || !of.EncodedAs(parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray) {
		return nil
	}
	return &Text{valueDecoder: valueDecoder{pages: from}, kind: field.Type, optional: of.Column.MaxDefinitionLevel() > 0}
}

// begin reads the pages up to the first data page, and so the dictionary, which precedes it.
func (c *Text) begin() error {
	if c.begun {
		return c.beginErr
	}
	c.begun = true
	c.first, c.beginErr = c.next()
	return c.beginErr
}

// next returns the next data page, or nil after the last. It keeps and indexes the
// dictionary.
func (c *Text) next() (*page.Page, error) {
	known := c.dictionary != nil
	next, err := c.valueDecoder.next()
	if err == nil && !known && c.dictionary != nil {
		err = c.index()
	}
	return next, err
}

// MaxLength returns the length in bytes of the dictionary's longest value.
func (c *Text) MaxLength() (int64, error) {
	err := c.begin()
	return c.maxValue, err
}

// Expect sets the length of the longest value in pages that are encoded as DELTA_BYTE_ARRAY.
func (c *Text) Expect(longest int) { c.longest = longest }

// index sets views to the positions of the dictionary's values.
func (c *Text) index() error {
	if c.entries > len(c.dictionary)/4 {
		return errDictionary
	}
	if c.entries > 0 {
		c.views = arrow.Uint64Traits.CastFromBytes(c.pages.Scratch().Allocate(c.entries * page.ViewBytes))
	}
	at := 0
	for i := range c.views {
		length, ok := byteArrayAt(c.dictionary, at)
		if !ok {
			return errDictionary
		}
		c.views[i] = view(at+4, length)
		c.maxValue = max(c.maxValue, int64(length))
		at += 4 + length
	}
	if at != len(c.dictionary) {
		return errDictionary
	}
	return nil
}

// LongestEntry returns the length of the longest value in the dictionary of pages of byte arrays.
func LongestEntry(from *page.Reader) (longest int64, err error) {
	for {
		next, err := from.Next()
		if next == nil || err != nil {
			return longest, err
		}
		if !next.Dictionary {
			return longest, nil // dictionaries precede the data
		}
		for values := next.Values; len(values) > 0; {
			length, ok := byteArrayAt(values, 0)
			if !ok {
				return 0, errDictionary
			}
			longest, values = max(longest, int64(length)), values[4+length:]
		}
	}
}

// byteArrayAt returns the length of the plain value at a position. It returns false if
// the value is truncated.
func byteArrayAt(values []byte, at int) (int, bool) {
	if len(values)-at < 4 {
		return 0, false
	}
	length := int64(binary.LittleEndian.Uint32(values[at:]))
	return int(length), length <= int64(len(values)-at-4)
}

// nextPage opens the next data page. It returns false after the last.
func (c *Text) nextPage() (bool, error) {
	if !c.levels.exhausted() {
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
	c.levels = rleDecoder{rest: next.Definition, width: 1}
	c.left = next.Count
	return true, c.open(next)
}

// Read decodes the next rows into memory from mem. It returns fewer rows than asked for only at the
// end of the column. The caller releases the result.
func (c *Text) Read(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	if c.coded != nil {
		return c.readCodes(rows, mem)
	}
	out := newByteArrayBuilder(mem)
	defer out.release()
	out.prepare(rows, c.optional)
	if _, err := pageByPage(rows, &c.left, c.nextPage, func(_, n int) error { return c.decode(out, n) }); err != nil {
		return nil, err
	}
	return out.finish(c.kind), nil
}

// Skip implements Column.
func (c *Text) Skip(rows int) error {
	return skipPages(rows, &c.left, c.nextPage, func(n int) error {
		present, err := c.levels.skipPresent(c.optional, n)
		if err != nil {
			return err
		}
		if c.indexed {
			return c.indices.skip(present)
		}
		if c.deltas != nil {
			return c.passDeltas(present)
		}
		for range present {
			length, ok := byteArrayAt(c.values, 0)
			if !ok {
				return errValuesMissing
			}
			c.values = c.values[4+length:]
		}
		return nil
	})
}

// decode decodes n rows of the open page.
func (c *Text) decode(out *byteArrayBuilder, n int) error {
	present := n
	if c.optional {
		var err error
		if present, err = c.levels.defined(out.validity.Bytes(), out.rows, n); err != nil {
			return err
		}
	}
	take := c.takePlain
	if c.indexed {
		take = c.takeIndexed
	}
	if c.deltas != nil {
		take = c.takeDeltas
	}
	if err := take(out, present); err != nil {
		return err
	}
	out.spread(n, present)
	return nil
}

// takePlain appends the next n plain values of the open page.
func (c *Text) takePlain(out *byteArrayBuilder, n int) error {
	at := 0
	for range n {
		length, ok := byteArrayAt(c.values, at)
		if !ok {
			return errValuesMissing
		}
		at += 4 + length
	}
	if err := out.reserve(at - 4*n); err != nil {
		return err
	}
	ends := out.ends(n)
	at = 0
	end, into := out.bytes, out.values.Bytes()
	for i := range ends {
		length, _ := byteArrayAt(c.values, at)
		copyText(into[end:], c.values[at+4:], length)
		at, end = at+4+length, end+length
		ends[i] = int32(end) //nolint:gosec // reserve limits it
	}
	out.bytes, c.values = end, c.values[at:]
	return nil
}

// takeIndexed appends the dictionary values at the next n indices of the open page. It sums up the
// lengths of the values before it copies the first value. Meanwhile it keeps the indices in the
// memory in which it then writes the ends of the values.
func (c *Text) takeIndexed(out *byteArrayBuilder, n int) error {
	ends := out.ends(n)
	indices := arrow.Uint32Traits.CastFromBytes(arrow.Int32Traits.CastToBytes(ends))
	if err := c.indices.numbers(indices, len(c.views)); err != nil {
		return err
	}
	bytes := 0
	for _, index := range indices {
		_, length := unpackView(c.views[index])
		bytes += length
	}
	if err := out.reserve(bytes); err != nil {
		return err
	}
	at, into := out.bytes, out.values.Bytes()
	for i, index := range indices {
		start, length := unpackView(c.views[index])
		copyText(into[at:], c.dictionary[start:], length)
		at += length
		ends[i] = int32(at) //nolint:gosec // reserve limits it
	}
	out.bytes = at
	return nil
}

// shortText is the length up to which texts are copied with a few instructions.
const shortText = 16

// copyText copies a text of the given length from the front of from to the front of into. It may
// overwrite some bytes of into behind the text, which must not have a text yet.
func copyText(into, from []byte, length int) {
	if length <= shortText && len(into) >= shortText && len(from) >= shortText {
		*(*[shortText]byte)(into) = *(*[shortText]byte)(from)
	} else {
		copy(into, from[:length])
	}
}

// Release frees the memory of the pages and views.
func (c *Text) Release() {
	if c.views != nil {
		c.pages.Scratch().Free(arrow.Uint64Traits.CastToBytes(c.views))
	}
	if c.coded != nil {
		c.coded.Release()
	}
	c.valueDecoder.Release()
	c.views, c.first, c.coded = nil, nil, nil
}

// byteArrayBuilder collects the rows of a Text.
type byteArrayBuilder struct {
	rows, nulls int
	bytes       int // total size of all values so far

	offsets, values, validity *memory.Buffer
	starts                    []int32 // the content of the buffer offsets
}

func newByteArrayBuilder(mem memory.Allocator) *byteArrayBuilder {
	return &byteArrayBuilder{offsets: memory.NewResizableBuffer(mem), values: memory.NewResizableBuffer(mem), validity: memory.NewResizableBuffer(mem)}
}

// prepare allocates memory for rows.
func (t *byteArrayBuilder) prepare(rows int, optional bool) {
	t.offsets.Resize((rows + 1) * arrow.Int32SizeBytes)
	t.starts = arrow.Int32Traits.CastFromBytes(t.offsets.Bytes())
	t.starts[0] = 0
	if optional {
		batch.ResizeBits(t.validity, rows)
	}
}

// reserve makes room for more bytes.
func (t *byteArrayBuilder) reserve(more int) error {
	wanted := t.bytes + more
	if wanted > math.MaxInt32 {
		return fault.New(fault.Exhausted, "the strings of %d rows are too large for one batch", len(t.starts)-1).WithRemedy("ask for fewer rows per batch")
	}
	if room := t.values.Len(); wanted > room {
		if room > 0 { // grow by half, since there may be many small pages
			wanted = max(wanted, room+room/2)
		}
		t.values.Resize(wanted)
	}
	return nil
}

// ends returns the end offsets of the next n values.
func (t *byteArrayBuilder) ends(n int) []int32 { return t.starts[t.rows+1 : t.rows+1+n] }

// add appends a value and returns its end offset.
func (t *byteArrayBuilder) add(value []byte) int32 {
	t.bytes += copy(t.values.Bytes()[t.bytes:], value)
	return int32(t.bytes)
}

// spread adds n rows. Before the call, the end offsets of the rows that are not null are at the
// front; spread moves each to its row. It works backwards, so that no offset is overwritten before
// it is moved. A null ends where the previous row ends.
func (t *byteArrayBuilder) spread(n, present int) {
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

// finish returns the rows as an array.
func (t *byteArrayBuilder) finish(kind arrow.DataType) arrow.ArrayData {
	t.offsets.Resize((t.rows + 1) * arrow.Int32SizeBytes)
	t.values.Resize(t.bytes)
	buffers := []*memory.Buffer{nil, t.offsets, t.values}
	if t.nulls > 0 {
		buffers[0] = t.validity
	}
	return array.NewData(kind, t.rows, buffers, nil, t.nulls, 0)
}

func (t *byteArrayBuilder) release() {
	batch.ReleaseAll(t.offsets, t.values, t.validity)
}
