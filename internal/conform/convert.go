package conform

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Bytes returns an upper bound of the bytes that Batch allocates for the same batch.
func (c *Conformer) Bytes(b arrow.RecordBatch) (int64, error) {
	if err := c.check(b); err != nil {
		return 0, err
	}
	bytes := int64(0)
	for i, column := range b.Columns() {
		more, err := bytesOf(column, c.to.Field(i).Type)
		if err != nil {
			return 0, fault.Op(err, "convert column %s", b.ColumnName(i))
		}
		bytes += more
	}
	return bytes, nil
}

// Batch converts a batch, with memory from mem. Columns whose type does not change are shared, and so are the bytes
// of texts with 64-bit offsets. The caller releases the result. It fails with Exhausted if a column of the batch does not fit
// 32-bit offsets, and with Internal if the batch has another schema.
func (c *Conformer) Batch(b arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, b.NumCols())
	defer func() {
		for _, column := range columns {
			column.Release()
		}
	}()
	if err := c.check(b); err != nil {
		return nil, err
	}
	for i, column := range b.Columns() {
		converted, err := convert(column, c.to.Field(i).Type, mem)
		if err != nil {
			return nil, fault.Op(err, "convert column %s", b.ColumnName(i))
		}
		columns = append(columns, converted)
		if nullable := c.to.Field(i).Nullable; !nullable && converted.NullN() > 0 {
			return nil, fault.New(fault.Invalid, "column %s has nulls, and its schema says that it has none", b.ColumnName(i)).
				WithRemedy("declare the column as nullable, or remove the rows")
		}
	}
	return array.NewRecordBatch(c.to, columns, b.NumRows()), nil
}

// check checks that a batch has the schema's types.
func (c *Conformer) check(b arrow.RecordBatch) error {
	if int(b.NumCols()) != c.from.NumFields() {
		return fault.New(fault.Internal, "a batch of %d columns to convert, %d expected", b.NumCols(), c.from.NumFields())
	}
	for i, column := range b.Columns() {
		if want := c.from.Field(i).Type; !arrow.TypeEqual(want, column.DataType()) {
			return fault.New(fault.Internal, "column %s of type %s to convert, %s expected", c.from.Field(i).Name, column.DataType(), want)
		}
	}
	return nil
}

// bytesOf bounds the bytes that convert allocates.
func bytesOf(a arrow.Array, to arrow.DataType) (int64, error) {
	if arrow.TypeEqual(a.DataType(), to) || a.Len() == 0 {
		return 0, nil
	}
	rows := int64(a.Len())
	own := (rows+1)*int64(arrow.Int32SizeBytes) + bitutil.BytesForBits(rows) + slack
	switch a := a.(type) {
	case *array.StringView:
		return own + textBytes(a), nil
	case *array.BinaryView:
		return own + textBytes(a), nil
	case *array.Dictionary:
		return dictionaryBytes(a, to)
	case *array.Struct:
		for i, f := range to.(*arrow.StructType).Fields() {
			more, err := bytesOf(a.Field(i), f.Type)
			if err != nil {
				return 0, err
			}
			own += more
		}
	case *array.FixedSizeList:
		return own + fixedBytes(a), nil
	case array.ListLike:
		items, _ := itemsOf(a)
		defer items.Release()
		more, err := bytesOf(items, to.(arrow.ListLikeType).Elem())
		return own + more, err
	}
	return own, nil
}

// Repeated returns the bytes of dictionary and view values, which the array may store only once but
// Batch copies for every row that uses them.
func Repeated(a arrow.Array) (bytes int64) {
	switch a := a.(type) {
	case *array.StringView:
		return textBytes(a)
	case *array.BinaryView:
		return textBytes(a)
	case *array.Dictionary:
		return dictionaryValues(a)
	case *array.Struct:
		for i := range a.NumField() {
			bytes += Repeated(a.Field(i))
		}
	case *array.List, *array.LargeList, *array.Map: // fixed-size lists have only numbers, which are never stored once for several rows
		if a.Len() == 0 {
			return 0
		}
		items, _ := itemsOf(a.(array.ListLike)) //nolint:forcetypeassert // all types of this case are
		defer items.Release()
		return Repeated(items)
	}
	return bytes
}

// slack bounds what an allocator adds to the buffers of one array for their alignment.
const slack = 256

// convert converts an array to the type that typeOf returned for the array's type.
func convert(a arrow.Array, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	switch {
	case arrow.TypeEqual(a.DataType(), to):
		a.Retain()
		return a, nil
	case a.Len() == 0:
		return batch.Nulls(to, 0, batch.Default()), nil
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return decoded(a, to, mem)
	case array.ExtensionArray:
		return convert(a.Storage(), to, mem)
	case *array.LargeString:
		return shortened(a, a.ValueOffsets(), to, mem)
	case *array.LargeBinary:
		return shortened(a, a.ValueOffsets(), to, mem)
	case *array.StringView:
		return flattened(a, to, mem, func(dst []byte, row int) []byte { return append(dst, a.Value(row)...) })
	case *array.BinaryView:
		return flattened(a, to, mem, func(dst []byte, row int) []byte { return append(dst, a.Value(row)...) })
	case *array.Timestamp:
		return renamed(a, to), nil
	case *array.Struct:
		return ofFields(a, to.(*arrow.StructType), mem)
	case *array.FixedSizeList:
		return variable(a, to, mem)
	case array.ListLike:
		return ofItems(a, to.(arrow.ListLikeType), mem)
	}
	return nil, fault.New(fault.Internal, "a column of type %s cannot become one of type %s", a.DataType(), to)
}

// renamed returns the same values under another type of the same layout.
func renamed(a arrow.Array, to arrow.DataType) arrow.Array {
	d := a.Data()
	made := array.NewData(to, d.Len(), d.Buffers(), nil, d.NullN(), d.Offset())
	defer made.Release()
	return array.MakeFromData(made)
}

// made builds an array from buffers and children, with the validity of another array. It takes the
// caller's references to the buffers; the caller keeps its references to the children.
func made(to arrow.DataType, of arrow.Array, buffers []*memory.Buffer, children []arrow.ArrayData, mem memory.Allocator) arrow.Array {
	validity := validityOf(of, mem)
	out := array.NewData(to, of.Len(), append([]*memory.Buffer{validity}, buffers...), children, of.NullN(), 0)
	defer out.Release()
	for _, b := range append(buffers, validity) {
		if b != nil {
			b.Release()
		}
	}
	return array.MakeFromData(out)
}

// validityOf copies the validity bits of an array; nil if it has no nulls.
func validityOf(a arrow.Array, mem memory.Allocator) *memory.Buffer {
	if a.NullN() == 0 {
		return nil
	}
	out := newBuffer(int(bitutil.BytesForBits(int64(a.Len()))), mem)
	bits := out.Bytes()
	clear(bits)
	bitutil.CopyBitmap(a.NullBitmapBytes(), a.Data().Offset(), a.Len(), bits, 0)
	return out
}

func newBuffer(bytes int, mem memory.Allocator) *memory.Buffer {
	out := memory.NewResizableBuffer(mem)
	out.Resize(bytes)
	return out
}

// shortOffsets returns the offsets as 32-bit integers, from 0.
func shortOffsets[O int32 | int64](offsets []O, mem memory.Allocator) (*memory.Buffer, error) {
	first := offsets[0]
	if total := int64(offsets[len(offsets)-1] - first); total > math.MaxInt32 {
		return nil, tooLong(total)
	}
	out := newBuffer(arrow.Int32Traits.BytesRequired(len(offsets)), mem)
	for i, o := range offsets {
		arrow.Int32Traits.CastFromBytes(out.Bytes())[i] = int32(o - first)
	}
	return out, nil
}

func tooLong(total int64) error {
	return fault.New(fault.Exhausted, "the rows of one batch have %d bytes of text or list items, which exceeds Arrow's 32-bit offsets", total).
		WithRemedy("send smaller batches")
}

// shortened converts texts or binary values with 64-bit offsets.
func shortened(a arrow.Array, offsets []int64, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	short, err := shortOffsets(offsets, mem)
	if err != nil {
		return nil, err
	}
	values := a.Data().Buffers()[2]
	if values != nil {
		values = memory.SliceBuffer(values, int(offsets[0]), int(offsets[len(offsets)-1]-offsets[0]))
	}
	return made(to, a, []*memory.Buffer{short, values}, nil, mem), nil
}

// textLike is an array of texts or binary values in any form.
type textLike interface {
	arrow.Array
	ValueLen(row int) int
}

// textBytes returns the bytes of all values.
func textBytes(a textLike) int64 {
	bytes := int64(0)
	for row := range a.Len() {
		if a.IsValid(row) {
			bytes += max(0, int64(a.ValueLen(row))) // rows that are not validated yet may have any length
		}
	}
	return bytes
}

// flattened converts views, given a function that appends the bytes of a row.
func flattened(a textLike, to arrow.DataType, mem memory.Allocator, appended func(dst []byte, row int) []byte) (arrow.Array, error) {
	total := textBytes(a)
	if total > math.MaxInt32 {
		return nil, tooLong(total)
	}
	ends := newBuffer(arrow.Int32Traits.BytesRequired(a.Len()+1), mem)
	offsets := arrow.Int32Traits.CastFromBytes(ends.Bytes())
	values := newBuffer(int(total), mem)
	dst := values.Bytes()[:0]
	offsets[0] = 0
	for row := range a.Len() {
		if a.IsValid(row) {
			dst = appended(dst, row)
		}
		offsets[row+1] = int32(len(dst))
	}
	return made(to, a, []*memory.Buffer{ends, values}, nil, mem), nil
}

// ofFields converts structs.
func ofFields(a *array.Struct, to *arrow.StructType, mem memory.Allocator) (arrow.Array, error) {
	children := make([]arrow.ArrayData, 0, a.NumField())
	defer func() {
		for _, child := range children {
			child.Release()
		}
	}()
	for i, f := range to.Fields() {
		child, err := convert(a.Field(i), f.Type, mem)
		if err != nil {
			return nil, err
		}
		child.Data().Retain()
		children = append(children, child.Data())
		child.Release()
	}
	return made(to, a, nil, children, mem), nil
}

// itemsOf returns the items of the lists (if the array is sliced, only those of the slice), and a
// function that returns the offsets of the lists in these items.
func itemsOf(a array.ListLike) (items arrow.Array, offsets func(mem memory.Allocator) (*memory.Buffer, error)) {
	if large, ok := a.(*array.LargeList); ok {
		all := large.Offsets()[large.Data().Offset():][:large.Len()+1]
		return array.NewSlice(large.ListValues(), all[0], all[large.Len()]),
			func(mem memory.Allocator) (*memory.Buffer, error) { return shortOffsets(all, mem) }
	}
	all := arrow.Int32Traits.CastFromBytes(a.Data().Buffers()[1].Bytes())[a.Data().Offset():][:a.Len()+1]
	return array.NewSlice(a.ListValues(), int64(all[0]), int64(all[a.Len()])),
		func(mem memory.Allocator) (*memory.Buffer, error) { return shortOffsets(all, mem) }
}

// ofItems converts lists and maps.
func ofItems(a array.ListLike, to arrow.ListLikeType, mem memory.Allocator) (arrow.Array, error) {
	items, offsets := itemsOf(a)
	defer items.Release()
	converted, err := convert(items, to.Elem(), mem)
	if err != nil {
		return nil, err
	}
	defer converted.Release()
	short, err := offsets(mem)
	if err != nil {
		return nil, err
	}
	return made(to, a, []*memory.Buffer{short}, []arrow.ArrayData{converted.Data()}, mem), nil
}

// choiceOf maps each row to its value in the dictionary (source 0), or to the null (source 1) if
// the row is null.
func choiceOf(a *array.Dictionary, mem memory.Allocator) (*batch.Choice, error) {
	which, at := make([]int32, a.Len()), make([]int32, a.Len())
	for row := range which {
		if a.IsNull(row) {
			which[row] = 1
		} else {
			at[row] = int32(a.GetValueIndex(row))
		}
	}
	return batch.NewChoice(2, which, at, mem)
}

// choiceBytes is the memory of a row while a dictionary is decoded.
const choiceBytes = 16

// dictionaryBytes bounds the bytes that decoded allocates.
func dictionaryBytes(a *array.Dictionary, to arrow.DataType) (int64, error) {
	values := a.Dictionary()
	bytes, err := bytesOf(values, to)
	if err != nil {
		return 0, err
	}
	widestNumber := int64(arrow.Decimal128SizeBytes) // also enough for the offsets of texts
	bytes += int64(a.Len()+1)*(choiceBytes+widestNumber) + slack
	return bytes + 2*dictionaryTexts(a), nil // texts are copied twice
}

// dictionaryTexts returns the bytes of the texts that the rows of a dictionary array stand for.
func dictionaryTexts(a *array.Dictionary) (bytes int64) {
	switch of := a.Dictionary().(type) {
	case textLike:
		for row := range a.Len() {
			if a.IsValid(row) && of.IsValid(a.GetValueIndex(row)) {
				bytes += int64(of.ValueLen(a.GetValueIndex(row)))
			}
		}
	case *array.FixedSizeBinary:
		bytes = int64(a.Len()) * int64(of.DataType().(*arrow.FixedSizeBinaryType).ByteWidth)
	}
	return bytes
}

// dictionaryValues returns the bytes of the values that the rows of a dictionary array stand for.
func dictionaryValues(a *array.Dictionary) int64 {
	if number, ok := a.Dictionary().DataType().(arrow.FixedWidthDataType); ok {
		return int64(a.Len()) * int64(number.Bytes())
	}
	return dictionaryTexts(a)
}

// decoded converts a dictionary to its values.
func decoded(a *array.Dictionary, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	values, err := convert(a.Dictionary(), to, mem)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	none := batch.Nulls(to, 1, batch.Default())
	defer none.Release()
	choice, err := choiceOf(a, mem)
	if err != nil {
		return nil, err
	}
	return choice.Column(to, []arrow.Array{values, none})
}
