package batch

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// recoding turns the rows of several arrays into one coded column with one dictionary. Some of the
// arrays may be coded, with different dictionaries. The result has the same rows as that of
// WithFirst.
type recoding struct {
	values arrow.DataType
	first  arrow.Array
	arrays []arrow.Array
	mem    memory.Allocator

	rows int
	// categories has the distinct values, and the codes of the values of each dictionary, and of
	// the rows of each array that is not coded.
	*categories
}

// recodingValue bounds the bytes that a recoding takes for each value or row of its sources,
// besides the result: an entry of the map, a string, and codes.
const recodingValue = 96

// maxNewValues limits new values: at most 1/maxNewValues of the rows of an array that is not coded
// may have values that were not known before.
const maxNewValues = 4

// RecodingBytes returns an upper bound of the memory that Recode and its result take. It returns
// false if no array is coded, because Recode is useless then.
func RecodingBytes(first arrow.Array, arrays []arrow.Array) (bytes int64, useful bool) {
	seen := map[arrow.ArrayData]bool{}
	rows, values := int64(1), int64(1)
	if first != nil {
		bytes += CopySize([]arrow.Array{first})
	}
	for _, a := range arrays {
		rows += int64(a.Len())
		if !IsCoded(a) {
			values += int64(a.Len())
			bytes += CopySize([]arrow.Array{a})
			continue
		}
		useful = true
		if d := a.Data().Dictionary(); !seen[d] {
			seen[d] = true
			values += int64(d.Len())
			bytes += bytesOfTexts(d)
		}
	}
	return bytes + values*recodingValue + rows*int64(arrow.Int32SizeBytes) + bitutil.BytesForBits(rows) + 8*alignment, useful
}

// bytesOfTexts returns the bytes of all values of an array.
func bytesOfTexts(d arrow.ArrayData) int64 {
	if d.Len() == 0 {
		return 0
	}
	offsets := view[int32](d.Buffers()[1].Bytes())[d.Offset():]
	return int64(offsets[d.Len()]) - int64(offsets[0])
}

// Recode returns the same rows as WithFirst, one leading row and then the rows of arrays of texts
// or binary values, as a coded column. The dictionary has the distinct values, beginning with the
// empty value; nulls have code 0. Recode returns nil if the column would not be smaller than
// without codes, or has too many distinct values. first must be nil or not coded. Memory comes from
// mem; RecodingBytes bounds its size.
func Recode(values arrow.DataType, first arrow.Array, arrays []arrow.Array, mem memory.Allocator) arrow.Array {
	r := &recoding{values: values, first: first, arrays: arrays, mem: mem, categories: newCategories()}
	r.code("")
	if !r.collect() || r.plainBytes() < r.codedBytes() {
		return nil
	}
	switch r.width() {
	case 1:
		return recoded[uint8](r, arrow.PrimitiveTypes.Uint8)
	case 2:
		return recoded[uint16](r, arrow.PrimitiveTypes.Uint16)
	default:
		return recoded[int32](r, arrow.PrimitiveTypes.Int32)
	}
}

// collect finds the distinct values. It returns false if there are too many of them.
func (r *recoding) collect() bool {
	r.rows = 1
	if r.first != nil && r.first.IsValid(0) {
		r.codes[r.first.Data()] = []int32{r.code(stringAt(r.first.Data(), r.first.Data().Offset()))}
	}
	for _, a := range r.arrays {
		r.rows += a.Len()
		data := a.Data()
		if IsCoded(a) {
			data = data.Dictionary()
		}
		if r.codes[data] != nil {
			continue
		}
		before, codes := len(r.ordered), make([]int32, data.Len())
		for i := range codes {
			if a.Data() != data || a.IsValid(i) {
				codes[i] = r.code(stringAt(data, data.Offset()+i))
			}
			if a.Data() == data && (len(r.ordered)-before)*maxNewValues > len(codes) {
				return false
			}
		}
		r.codes[data] = codes
	}
	return r.bytes <= math.MaxInt32
}

// stringAt returns a row of texts or binary values that are not coded, in their memory; row is
// counted from the start of the buffers.
func stringAt(data arrow.ArrayData, row int) string {
	value := textAt(data, view[int32](data.Buffers()[1].Bytes()), row)
	return unsafe.String(unsafe.SliceData(value), len(value))
}

// width returns the bytes of a code.
func (r *recoding) width() int {
	switch n := len(r.ordered); {
	case n <= math.MaxUint8+1:
		return 1
	case n <= math.MaxUint16+1:
		return 2
	default:
		return 4
	}
}

// codedBytes returns the bytes of the result, except for its validity.
func (r *recoding) codedBytes() int64 {
	return int64(r.rows*r.width()) + int64((len(r.ordered)+1)*arrow.Int32SizeBytes) + r.bytes
}

// plainBytes returns how many bytes the result would have if it were not coded, except for its
// validity.
func (r *recoding) plainBytes() int64 {
	sum := int64((r.rows + 1) * arrow.Int32SizeBytes)
	for _, a := range r.arrays {
		p := input{data: a.Data(), base: a.Data().Offset(), selection: &selection{spans: []span{{0, a.Len()}}}}
		sum += itemCount[int32]([]input{p})
	}
	return sum
}

// recoded returns the result.
func recoded[C code](r *recoding, codeType arrow.DataType) arrow.Array {
	g := gathering{mem: r.mem}
	defer g.close()
	validity := g.validity(r.inputs(), r.rows)
	var zero C
	buffer := g.buffer(r.rows * int(unsafe.Sizeof(zero)))
	codes := view[C](buffer.Bytes())
	codes[0] = 0
	if r.first != nil && r.first.IsValid(0) {
		codes[0] = C(r.codes[r.first.Data()][0])
	}
	codes = codes[1:]
	for _, a := range r.arrays {
		recodeRows(codes[:a.Len()], a, r.codes)
		codes = codes[a.Len():]
	}
	dictionary := r.dictionary(r.values, &g)
	data := NewCoded(codeType, dictionary, []*memory.Buffer{validity.Buffer, buffer}, r.rows, validity.nulls)
	defer data.Release()
	return array.MakeFromData(data)
}

// inputs returns all rows.
func (r *recoding) inputs() []input {
	inputs := []input{{selection: &selection{spans: []span{{0, 1}}, rows: 1}}}
	if r.first != nil {
		inputs[0].data, inputs[0].base = r.first.Data(), r.first.Data().Offset()
	}
	for _, a := range r.arrays {
		if n := a.Len(); n > 0 {
			inputs = append(inputs, input{data: a.Data(), base: a.Data().Offset(), selection: &selection{spans: []span{{0, n}}, rows: n}})
		}
	}
	return inputs
}

// recodeRows writes the new codes of an array's rows. The codes of nulls are 0.
func recodeRows[C code](out []C, a arrow.Array, codes map[arrow.ArrayData][]int32) {
	data := a.Data()
	if !IsCoded(a) {
		for i, c := range codes[data] {
			out[i] = C(c)
		}
		return
	}
	to := codes[data.Dictionary()]
	switch c, width := codedInput(input{data: data, base: data.Offset(), selection: &selection{}}); width {
	case 1:
		translate(out, &c, c.codes, to)
	case 2:
		translate(out, &c, view[uint16](c.codes), to)
	default:
		translate(out, &c, view[int32](c.codes), to)
	}
}

func translate[C, From code](out []C, c *coded, codes []From, to []int32) {
	for i := range out {
		out[i] = 0
		if c.valid == nil || bit(c.valid, c.base+i) != 0 {
			out[i] = C(to[codes[i]])
		}
	}
}
