package batch

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// GatherCodes returns the rows of segments of texts or binary values as one coded column with int32
// codes, whose dictionary has the values of these rows and no others, in the order of their first
// row. It depends only on the rows, not on the form of the sources. Codes of nulls are 0, also where
// the dictionary is empty since all rows are null. It fails as Gather does.
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

// SizeOfCodes returns an upper bound of the bytes that GatherCodes of the same segments allocates,
// and of those that it takes besides until it returns.
func (g *Gatherer) SizeOfCodes(values arrow.DataType, segments []Segment) (int64, error) {
	inputs, rows, err := g.inputs(values, segments)
	if err != nil {
		return 0, err
	}
	// At most one value per row, and per value of the dictionaries.
	bytes := g.size(values, inputs, int64(rows)) + g.allocatedSize(int64(rows*arrow.Int32SizeBytes)) + int64(rows)*recodingValue
	seen := map[arrow.ArrayData]bool{}
	for _, p := range inputs {
		if p.data != nil && isCoded(p.data) && !seen[p.data.Dictionary()] {
			seen[p.data.Dictionary()] = true
			bytes += int64(p.data.Dictionary().Len() * arrow.Int32SizeBytes)
		}
	}
	return bytes, nil
}

// categories is a set of values that have codes, in the order in which they were added.
type categories struct {
	known   map[string]int32 // keys are in the memory of the sources
	ordered []string         // the values by code
	bytes   int64            // of all values
	codes   map[arrow.ArrayData][]int32
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

// of returns the codes of a dictionary's values; noCode for those that have none yet.
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
	at := c.valueCodes(p)
	nullable := p.nullness() != noNulls
	put := func(i, row int) {
		out[i] = 0
		if !nullable || bit(p.data.Buffers()[0].Bytes(), p.base+row) != 0 {
			out[i] = at(row)
		}
	}
	for i, index := range p.indices {
		put(i, int(index))
	}
	i := 0
	for _, s := range p.spans {
		for row := s.from; row < s.from+s.rows; row++ {
			put(i, row)
			i++
		}
	}
}

// valueCodes returns a function that returns the code of a row's value.
func (c *categories) valueCodes(p input) func(row int) int32 {
	if !isCoded(p.data) {
		return func(row int) int32 { return c.code(stringAt(p.data, p.base+row)) }
	}
	of, width := codedOf(p.data, p.base)
	switch dictionary := p.data.Dictionary(); width {
	case 1:
		return translated(c, dictionary, of.codes)
	case 2:
		return translated(c, dictionary, view[uint16](of.codes))
	default:
		return translated(c, dictionary, view[int32](of.codes))
	}
}

func translated[C code](c *categories, dictionary arrow.ArrayData, codes []C) func(row int) int32 {
	to := c.of(dictionary)
	return func(row int) int32 {
		from := codes[row]
		if to[from] == noCode {
			to[from] = c.code(stringAt(dictionary, dictionary.Offset()+int(from)))
		}
		return to[from]
	}
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
