package write

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// conform returns a column in the form that the encoder requires. Nested fields have the encoder's
// names, start at offset 0 and have exactly the values that are written: a null list has no
// elements, and a field is null in rows where a struct around it is null. It returns Invalid for
// another type. The caller releases the result.
func (n *fieldNode) conform(a arrow.Array) (arrow.ArrayData, error) {
	switch a := a.(type) {
	case *array.Struct:
		if t, ok := n.wanted.(*arrow.StructType); ok && sameNames(t, a.DataType()) {
			return n.conformStruct(a)
		}
	case *array.Map:
		if _, ok := n.wanted.(*arrow.MapType); ok {
			return n.conformList(a, a.Offsets())
		}
	case *array.List:
		if _, ok := n.wanted.(*arrow.ListType); ok {
			return n.conformList(a, a.Offsets())
		}
	default:
		if arrow.TypeEqual(n.wanted, a.DataType()) {
			a.Data().Retain()
			return a.Data(), nil
		}
	}
	return nil, fault.New(fault.Invalid, "column %s of a batch has the type %s, the file %s", n.path, a.DataType(), n.wanted)
}

func sameNames(want *arrow.StructType, have arrow.DataType) bool {
	t, ok := have.(*arrow.StructType)
	return ok && slices.EqualFunc(want.Fields(), t.Fields(), func(a, b arrow.Field) bool { return a.Name == b.Name })
}

func (n *fieldNode) conformStruct(a *array.Struct) (arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, len(n.children))
	defer batch.ReleaseAll(children...)
	for i, c := range n.children {
		field := a.Field(i)
		if a.NullN() > 0 && field.DataType().ID() == c.wanted.ID() { // conform refuses columns of other types, some of which have no validity
			masked := nullUnder(field.Data(), a)
			field = array.MakeFromData(masked)
			masked.Release()
		} else {
			field.Retain()
		}
		child, err := c.conform(field)
		field.Release()
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	return n.nested(a, nil, children), nil
}

// nested makes an array of the encoder's type with the validity of a, at offset 0.
func (n *fieldNode) nested(a arrow.Array, offsets *memory.Buffer, children []arrow.ArrayData) arrow.ArrayData {
	buffers := []*memory.Buffer{nil}
	if a.NullN() > 0 {
		bits := make([]byte, bitutil.BytesForBits(int64(a.Len())))
		bitutil.CopyBitmap(a.NullBitmapBytes(), a.Data().Offset(), a.Len(), bits, 0)
		buffers[0] = memory.NewBufferBytes(bits)
	}
	if offsets != nil {
		buffers = append(buffers, offsets)
	}
	return array.NewData(n.encoded, a.Len(), buffers, children, a.NullN(), 0)
}

// nullUnder returns the data of a struct's field with nulls where the struct is null. The caller
// then conforms the field, which also removes the values of its fields and elements in these rows.
func nullUnder(child arrow.ArrayData, parent *array.Struct) arrow.ArrayData {
	at, length := child.Offset(), child.Len()
	bits := make([]byte, bitutil.BytesForBits(int64(at+length)))
	if own := child.Buffers()[0]; own != nil && own.Len() > 0 {
		copy(bits, own.Bytes())
	} else {
		bitutil.SetBitsTo(bits, int64(at), int64(length), true)
	}
	for i := range length {
		if parent.IsNull(i) {
			bitutil.ClearBit(bits, at+i)
		}
	}
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, child.Buffers()[1:]...)
	return array.NewData(child.DataType(), length, buffers, child.Children(), array.UnknownNullCount, at)
}

// conformList conforms a list or a map. all are the offsets of a or, if a is a slice, of the whole
// array.
func (n *fieldNode) conformList(a arrow.Array, all []int32) (arrow.ArrayData, error) {
	rows := a.Len()
	ends := make([]int32, rows+1)
	var used [][2]int64 // ranges of the elements that are written
	if rows > 0 {
		offsets := all[a.Data().Offset():][:rows+1]
		for i := range rows {
			from, to := offsets[i], offsets[i+1]
			if a.IsNull(i) {
				to = from
			}
			ends[i+1] = ends[i] + to - from
			if last := len(used) - 1; last >= 0 && used[last][1] == int64(from) {
				used[last][1] = int64(to)
			} else if to > from {
				used = append(used, [2]int64{int64(from), int64(to)})
			}
		}
	}
	elements, err := elementsOf(array.MakeFromData(a.Data().Children()[0]), used)
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	child, err := n.conformElements(elements)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	return n.nested(a, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends)), []arrow.ArrayData{child}), nil
}

// conformElements conforms the elements of a list, or the entries of a map.
func (n *fieldNode) conformElements(elements arrow.Array) (arrow.ArrayData, error) {
	if _, ok := n.wanted.(*arrow.ListType); ok {
		return n.children[0].conform(elements)
	}
	entries, ok := elements.(*array.Struct)
	if !ok || entries.NumField() != 2 || entries.NullN() > 0 {
		return nil, fault.New(fault.Invalid, "column %s has a map with null entries", n.path)
	}
	children := make([]arrow.ArrayData, 2)
	defer batch.ReleaseAll(children...)
	for i, c := range n.children {
		var err error
		if children[i], err = c.conform(entries.Field(i)); err != nil {
			return nil, err
		}
	}
	return array.NewData(n.encoded.(*arrow.MapType).Elem(), entries.Len(), []*memory.Buffer{nil}, children, 0, 0), nil //nolint:forcetypeassert // encoderType returns a MapType for maps
}

// elementsOf returns the elements in the used ranges as one array. It takes ownership of values.
func elementsOf(values arrow.Array, used [][2]int64) (arrow.Array, error) {
	defer values.Release()
	switch len(used) {
	case 0:
		return array.NewSlice(values, 0, 0), nil
	case 1:
		return array.NewSlice(values, used[0][0], used[0][1]), nil
	}
	parts := make([]arrow.Array, len(used))
	for i, r := range used {
		parts[i] = array.NewSlice(values, r[0], r[1])
		defer parts[i].Release()
	}
	return array.Concatenate(parts, batch.Default())
}

// observe extends the bounds of the column's leaves by the values of a conformed column, and checks
// that required fields have no nulls. parent is the number of nulls of the struct around the
// column.
func (n *fieldNode) observe(data arrow.ArrayData, parent int) error {
	a := array.MakeFromData(data)
	defer a.Release()
	nulls := a.NullN()
	if !n.nullable && nulls > parent {
		return fault.New(fault.Invalid, "column %s is required, and a batch has nulls in it", n.path).
			WithRemedy("fill the nulls or leave out the rows")
	}
	switch n.wanted.(type) {
	case *arrow.StructType:
		for i, c := range n.children {
			if err := c.observe(data.Children()[i], nulls); err != nil {
				return err
			}
		}
		return nil
	case *arrow.ListType:
		return n.children[0].observe(data.Children()[0], 0)
	case *arrow.MapType:
		for i, c := range n.children {
			if err := c.observe(data.Children()[0].Children()[i], 0); err != nil {
				return err
			}
		}
		return nil
	default:
		return fault.Op(n.bounds.add(a), "write column %s", n.path)
	}
}

// rowBytes returns the plain size of the rows [from, to) of a conformed column. If the column has
// several leaves, it is the size of the largest leaf.
func rowBytes(data arrow.ArrayData, from, to int) (size int64) {
	rows := int64(to - from)
	switch t := data.DataType().(type) {
	case *arrow.StructType:
		for _, c := range data.Children() {
			size = max(size, rowBytes(c, from, to))
		}
		return size
	case *arrow.ListType, *arrow.MapType:
		offsets := offsetsOf(data)
		return rows + rowBytes(data.Children()[0], int(offsets[from]), int(offsets[to]))
	case *arrow.StringType, *arrow.BinaryType:
		if data.Len() == 0 {
			return 0
		}
		offsets := offsetsOf(data)
		return 4*rows + int64(offsets[to]-offsets[from])
	case arrow.FixedWidthDataType:
		return rows * int64(max(t.BitWidth()/8, 1))
	default:
		return rows
	}
}

// offsetsOf returns the offsets of the rows.
func offsetsOf(data arrow.ArrayData) []int32 {
	if data.Buffers()[1] == nil {
		return make([]int32, data.Len()+1)
	}
	return arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())[data.Offset():]
}

// hasValues appends, for each leaf of a conformed column, whether the leaf has a value that is not
// null in the rows [from, to).
func hasValues(data arrow.ArrayData, from, to int, into []bool) []bool {
	switch data.DataType().(type) {
	case *arrow.StructType:
		for _, c := range data.Children() {
			into = hasValues(c, from, to, into)
		}
		return into
	case *arrow.ListType, *arrow.MapType:
		offsets := offsetsOf(data)
		return hasValues(data.Children()[0], int(offsets[from]), int(offsets[to]), into)
	}
	validity := data.Buffers()[0]
	if validity == nil || validity.Len() == 0 {
		return append(into, from < to)
	}
	for i := from; i < to; i++ {
		if bitutil.BitIsSet(validity.Bytes(), data.Offset()+i) {
			return append(into, true)
		}
	}
	return append(into, false)
}
