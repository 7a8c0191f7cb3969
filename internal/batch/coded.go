package batch

import (
	"bytes"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A column of texts or binary values may be coded: it is then a dictionary array. The array's
// indices, which are called codes, have the type uint8, uint16 or int32; the dictionary has the
// values, and no nulls. All codes are within the dictionary, except the codes of nulls, which are
// undefined. The schema of a stream and the types of structs name the type of the values. Only the
// array itself, or the schema of a single batch, shows whether a column is coded. Gather, Choose,
// SameRow and ValueBytes accept columns in both forms. The results of Gather and Choose are not
// coded.

// Coded returns the type of a coded column with int32 codes, given the type of its values.
func Coded(values arrow.DataType) *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: values}
}

// MayBeCoded reports whether columns of a type may be coded.
func MayBeCoded(dt arrow.DataType) bool { return dt.ID() == arrow.STRING || dt.ID() == arrow.BINARY }

// ValueType returns the type of a column's values. For a coded column this is the type of the
// dictionary; otherwise it is the column's type.
func ValueType(dt arrow.DataType) arrow.DataType {
	if d, ok := dt.(*arrow.DictionaryType); ok && MayBeCoded(d.ValueType) {
		return d.ValueType
	}
	return dt
}

// isCoded reports whether data is a coded column.
func isCoded(data arrow.ArrayData) bool {
	return data.DataType().ID() == arrow.DICTIONARY && MayBeCoded(data.DataType().(*arrow.DictionaryType).ValueType)
}

// IsCoded reports whether a column is coded.
func IsCoded(a arrow.Array) bool { return isCoded(a.Data()) }

// FormOf returns a stream's schema, but with the types of the given columns of one batch, some of
// which may be coded.
func FormOf(schema *arrow.Schema, columns []arrow.Array) *arrow.Schema {
	if !slices.ContainsFunc(columns, IsCoded) {
		return schema
	}
	fields := slices.Clone(schema.Fields())
	for i, c := range columns {
		if IsCoded(c) {
			fields[i].Type = c.DataType()
		}
	}
	return arrow.NewSchema(fields, nil)
}

// SameValues reports whether a batch with the schema of may belong to a stream with the schema
// stream: the schemas differ at most in which columns are coded.
func SameValues(of, stream *arrow.Schema) bool {
	if of == stream {
		return true
	}
	if of.NumFields() != stream.NumFields() {
		return false
	}
	for i, f := range of.Fields() {
		f.Type = ValueType(f.Type)
		if !f.Equal(stream.Field(i)) {
			return false
		}
	}
	return true
}

// OwnSize is Size without the dictionaries of the batch's columns, which the batch shares with
// other batches.
func OwnSize(b arrow.RecordBatch) int64 { return OwnArraySize(b.Columns()...) }

// OwnArraySize is the OwnSize of a batch of these columns.
func OwnArraySize(columns ...arrow.Array) int64 {
	m := measure{}
	for _, c := range columns {
		m.addOwn(c.Data())
	}
	return m.sum()
}

// coded is a coded source of a gathering.
type coded struct {
	codes   []byte  // of the rows from base on
	offsets []int32 // offsets of the dictionary's values
	values  []byte  // bytes of the dictionary's values
	valid   []byte  // validity bits, of which that of row 0 is at base; nil if no row is null
	base    int
}

// codedOf returns the parts of a coded column, and the width of its codes in bytes. Row 0 of the
// result is row base of the column's buffers.
func codedOf(data arrow.ArrayData, base int) (c coded, width int) {
	width = data.DataType().(*arrow.DictionaryType).IndexType.(arrow.FixedWidthDataType).Bytes()
	dictionary := data.Dictionary()
	c.codes = bytesOf(data.Buffers()[1])[base*width:]
	c.offsets = view[int32](bytesOf(dictionary.Buffers()[1]))[dictionary.Offset():]
	c.values = bytesOf(dictionary.Buffers()[2])
	return c, width
}

// codedInput is codedOf for an input, and also sets the validity bits.
func codedInput(p input) (c coded, width int) {
	c, width = codedOf(p.data, p.base)
	if p.nullness() != noNulls {
		c.valid, c.base = p.data.Buffers()[0].Bytes(), p.base
	}
	return c, width
}

// code lists the types of codes.
type code interface{ uint8 | uint16 | int32 }

// spanOf returns the range [from, to) of the bytes of a row's value, which is empty for a null.
func spanOf[C code](c *coded, codes []C, row int) (from, to int) {
	if c.valid != nil && bit(c.valid, c.base+row) == 0 {
		return 0, 0
	}
	at := int(codes[row])
	return int(c.offsets[at]), int(c.offsets[at+1])
}

// followCodes writes the end offsets of the values of the selected rows of a coded source. The
// first value starts after total bytes. followCodes returns the number of bytes of these values.
func followCodes[O int32 | int64](ends []O, total int, p input) int {
	switch c, width := codedInput(p); width {
	case 1:
		return codedEnds(ends, total, &c, c.codes, p.selection)
	case 2:
		return codedEnds(ends, total, &c, view[uint16](c.codes), p.selection)
	default:
		return codedEnds(ends, total, &c, view[int32](c.codes), p.selection)
	}
}

func codedEnds[O int32 | int64, C code](ends []O, total int, c *coded, codes []C, of *selection) int {
	sum := total
	for i, index := range of.indices {
		from, to := spanOf(c, codes, int(index))
		sum += to - from
		ends[i] = O(sum)
	}
	for _, s := range of.spans {
		for i := range s.rows {
			from, to := spanOf(c, codes, s.from+i)
			sum += to - from
			ends[i] = O(sum)
		}
		ends = ends[s.rows:]
	}
	return sum - total
}

// codedBytes counts the bytes of the values of the selected rows of a coded source.
func codedBytes(p input) int64 {
	switch c, width := codedInput(p); width {
	case 1:
		return sumCoded(&c, c.codes, p.selection)
	case 2:
		return sumCoded(&c, view[uint16](c.codes), p.selection)
	default:
		return sumCoded(&c, view[int32](c.codes), p.selection)
	}
}

func sumCoded[C code](c *coded, codes []C, of *selection) int64 {
	sum := 0
	for _, index := range of.indices {
		from, to := spanOf(c, codes, int(index))
		sum += to - from
	}
	for _, s := range of.spans {
		for row := s.from; row < s.from+s.rows; row++ {
			from, to := spanOf(c, codes, row)
			sum += to - from
		}
	}
	return int64(sum)
}

// copyCoded copies the values of the selected rows of a coded source, and returns the rest of dst.
func copyCoded(dst []byte, p input) []byte {
	switch c, width := codedInput(p); width {
	case 1:
		return copyValues(dst, &c, c.codes, p.selection)
	case 2:
		return copyValues(dst, &c, view[uint16](c.codes), p.selection)
	default:
		return copyValues(dst, &c, view[int32](c.codes), p.selection)
	}
}

// shortValue is the number of bytes that are copied at once for values of at most that length, if
// source and destination have room for so many bytes. The next value overwrites the surplus.
const shortValue = 16

func copyValues[C code](dst []byte, c *coded, codes []C, of *selection) []byte {
	at := 0
	for _, index := range of.indices {
		from, to := spanOf(c, codes, int(index))
		at += copyShort(dst[at:], c.values, from, to)
	}
	for _, s := range of.spans {
		for row := s.from; row < s.from+s.rows; row++ {
			from, to := spanOf(c, codes, row)
			at += copyShort(dst[at:], c.values, from, to)
		}
	}
	return dst[at:]
}

func copyShort(dst, src []byte, from, to int) int {
	if to-from <= shortValue && from+shortValue <= len(src) && shortValue <= len(dst) {
		*(*[shortValue]byte)(dst) = *(*[shortValue]byte)(src[from:])
		return to - from
	}
	return copy(dst, src[from:to])
}

// valueAt returns the bytes of a row of texts or binary values, coded or not; row is counted from
// the start of the buffers.
func valueAt(data arrow.ArrayData, row int) []byte {
	if !isCoded(data) {
		return textAt(data, view[int32](data.Buffers()[1].Bytes()), row)
	}
	c, width := codedOf(data, row)
	at := 0
	switch width {
	case 1:
		at = int(c.codes[0])
	case 2:
		at = int(view[uint16](c.codes[:2])[0])
	default:
		at = int(view[int32](c.codes[:4])[0])
	}
	return c.values[c.offsets[at]:c.offsets[at+1]]
}

// sameCoded compares n rows of texts or binary values, of which some are coded.
func sameCoded(a arrow.ArrayData, i int, b arrow.ArrayData, j, n int) bool {
	for k := range n {
		if !bytes.Equal(valueAt(a, i+k), valueAt(b, j+k)) {
			return false
		}
	}
	return true
}

// NewCoded returns a coded column, given the type of its codes, and its buffers: validity, which
// may be nil, and codes. It does not check the buffers, nor that the dictionary has no nulls.
func NewCoded(codeType arrow.DataType, dictionary arrow.ArrayData, buffers []*memory.Buffer, rows, nulls int) arrow.ArrayData {
	values := dictionary.(*array.Data)
	dt := &arrow.DictionaryType{IndexType: codeType, ValueType: values.DataType()}
	return array.NewDataWithDictionary(dt, rows, buffers, nulls, 0, values)
}
