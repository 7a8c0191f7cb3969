package batch

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// GatherCodes returns the rows of segments of texts or binary values as one coded column with int32
// codes, whose dictionary has the values of these rows and no others, in the order of their first
// row. The result depends only on the rows, not on whether the sources are coded. Codes of nulls
// are 0, even if the dictionary is empty because all rows are null. GatherCodes returns the same
// errors as Gather.
func (g *Gatherer) GatherCodes(values arrow.DataType, segments []Segment) (arrow.Array, error) {
	inputs, rows, err := g.inputs(values, segments)
	if err != nil {
		return nil, err
	}
	validity := g.validity(inputs, rows)
	buffer := g.buffer(rows * arrow.Int32SizeBytes)
	c := newCategories()
	out := view[int32](buffer.Bytes())
	for _, p := range inputs {
		c.rows(out[:p.rows], p)
		out = out[p.rows:]
	}
	if c.bytes > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "the distinct values of a column of %d rows have %d bytes, which exceeds Arrow's 32-bit offsets", rows, c.bytes).
			WithRemedy("%s", g.remedy)
	}
	data := NewCoded(arrow.PrimitiveTypes.Int32, c.dictionary(values, &g.gathering), []*memory.Buffer{validity.Buffer, buffer}, rows, validity.nulls)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// SizeOfCodes returns an upper bound of the bytes that GatherCodes allocates for the result with
// the same segments, and of the working memory that it needs in addition until it returns. It
// returns the same errors as Gather.
func (g *Gatherer) SizeOfCodes(values arrow.DataType, segments []Segment) (bytes, working int64, err error) {
	inputs, rows, err := g.inputs(values, segments)
	if err != nil {
		return 0, 0, err
	}
	// The bound assumes a distinct value in each row, and counts codes for each value of the
	// dictionaries.
	bytes = g.size(values, inputs, int64(rows)) + g.allocatedSize(int64(rows*arrow.Int32SizeBytes))
	working = int64(rows)*recodingValue + int64(unsafe.Sizeof(categories{}))
	seen := map[arrow.ArrayData]bool{}
	for _, p := range inputs {
		if p.data != nil && isCoded(p.data) && !seen[p.data.Dictionary()] {
			seen[p.data.Dictionary()] = true
			working += int64(p.data.Dictionary().Len() * arrow.Int32SizeBytes)
		}
	}
	return bytes, working, nil
}

// AllocatedCodes returns the bytes that GatherCodes has allocated for a column that it returned.
func (g *Gatherer) AllocatedCodes(of arrow.Array) int64 {
	bytes := int64(0)
	for _, data := range []arrow.ArrayData{of.Data(), of.Data().Dictionary()} {
		for _, b := range data.Buffers() {
			if b != nil {
				bytes += g.allocatedSize(int64(b.Len()))
			}
		}
	}
	return bytes
}

// categories is a set of values. Their codes are their numbers in the order in which they were
// added.
type categories struct {
	known   map[string]int32 // keys are in the memory of the sources
	ordered []string         // the values by code
	bytes   int64            // total size of all values
	codes   map[arrow.ArrayData][]int32
	recent  [1 << recentBits]recentCode
}

func newCategories() *categories {
	return &categories{known: map[string]int32{}, codes: map[arrow.ArrayData][]int32{}}
}

// code returns the code of a value, which it adds if it is new.
func (c *categories) code(value string) int32 {
	code, ok := c.known[value]
	if !ok {
		code = int32(len(c.ordered))
		c.known[value] = code
		c.ordered = append(c.ordered, value)
		c.bytes += int64(len(value))
	}
	return code
}

// noCode marks a value of a dictionary that has no code yet.
const noCode = -1

// of returns the codes of a dictionary's values. Values that have no code yet have noCode.
func (c *categories) of(dictionary arrow.ArrayData) []int32 {
	codes := c.codes[dictionary]
	if codes == nil {
		codes = make([]int32, dictionary.Len())
		for i := range codes {
			codes[i] = noCode
		}
		c.codes[dictionary] = codes
	}
	return codes
}

// rows writes the codes of the selected rows of a source.
func (c *categories) rows(out []int32, p input) {
	if p.data == nil {
		clear(out)
		return
	}
	if !isCoded(p.data) {
		t := textRows{categories: c, offsets: view[int32](bytesOf(p.data.Buffers()[1]))[p.base:], values: bytesOf(p.data.Buffers()[2])}
		if p.nullness() != noNulls {
			t.valid, t.base = p.data.Buffers()[0].Bytes(), p.base
		}
		t.write(out, p.selection)
		return
	}
	code := c.translation(p)
	for i, index := range p.indices {
		out[i] = code(int(index))
	}
	for _, s := range p.spans {
		for i := range s.rows {
			out[i] = code(s.from + i)
		}
		out = out[s.rows:]
	}
}

// translation returns a function that returns the code of a row of a coded source.
func (c *categories) translation(p input) func(row int) int32 {
	of, width := codedInput(p)
	switch dictionary := p.data.Dictionary(); width {
	case 1:
		return translated(c, dictionary, of, of.codes)
	case 2:
		return translated(c, dictionary, of, view[uint16](of.codes))
	default:
		return translated(c, dictionary, of, view[int32](of.codes))
	}
}

func translated[C code](c *categories, dictionary arrow.ArrayData, of coded, codes []C) func(row int) int32 {
	to := c.of(dictionary)
	return func(row int) int32 {
		if of.valid != nil && bit(of.valid, of.base+row) == 0 {
			return 0
		}
		from := codes[row]
		if to[from] == noCode {
			to[from] = c.code(stringAt(dictionary, dictionary.Offset()+int(from)))
		}
		return to[from]
	}
}

// textRows has the rows of a source that is not coded.
type textRows struct {
	*categories
	offsets []int32 // offsets of the rows, starting with row 0
	values  []byte
	valid   []byte // validity bits, of which bit base belongs to row 0; nil if no row is null
	base    int
}

func (t *textRows) write(out []int32, of *selection) {
	for i, index := range of.indices {
		out[i] = t.row(int(index))
	}
	for _, s := range of.spans {
		for i := range s.rows {
			out[i] = t.row(s.from + i)
		}
		out = out[s.rows:]
	}
}

// row returns the code of a row.
func (t *textRows) row(row int) int32 {
	if t.valid != nil && bit(t.valid, t.base+row) == 0 {
		return 0
	}
	value := t.values[t.offsets[row]:t.offsets[row+1]]
	r := &t.recent[slotOf(value)]
	if !r.set || r.value != string(value) {
		*r = recentCode{value: unsafe.String(unsafe.SliceData(value), len(value)), set: true}
		r.code = t.code(r.value)
	}
	return r.code
}

// recentCode is the code of a value that was seen lately.
type recentCode struct {
	value string
	code  int32
	set   bool
}

// recentBits is the base-2 logarithm of the number of recent values, whose codes are found without
// the map.
const recentBits = 8

// slotOf returns the place of a value among the recent values: a hash of its length, its first
// bytes and its last bytes.
func slotOf(value []byte) uint64 {
	h, n := uint64(len(value)), len(value)
	switch {
	case n >= 8:
		h ^= binary.LittleEndian.Uint64(value) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(value[n-8:]), 32)
	case n >= 4:
		h ^= uint64(binary.LittleEndian.Uint32(value))<<8 ^ uint64(binary.LittleEndian.Uint32(value[n-4:]))<<32
	case n > 0:
		h ^= uint64(value[0])<<8 ^ uint64(value[n/2])<<16 ^ uint64(value[n-1])<<24
	}
	return h * 0x9E3779B97F4A7C15 >> (64 - recentBits) // 2^64 divided by the golden ratio
}

// dictionary returns the values by code, as an array that belongs to g.
func (c *categories) dictionary(values arrow.DataType, g *gathering) arrow.ArrayData {
	offsets, bytes := g.buffer((len(c.ordered)+1)*arrow.Int32SizeBytes), g.buffer(int(c.bytes))
	ends, rest, end := view[int32](offsets.Bytes()), bytes.Bytes(), 0
	ends[0] = 0
	for i, v := range c.ordered {
		end += len(v)
		rest = rest[copy(rest, v):]
		ends[i+1] = int32(end)
	}
	out := array.NewData(values, len(c.ordered), []*memory.Buffer{nil, offsets, bytes}, nil, 0, 0)
	g.owned = append(g.owned, out)
	return out
}
