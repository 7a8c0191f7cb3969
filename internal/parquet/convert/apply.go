package convert

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/charged"
)

// Apply converts decoded data. The caller releases the result. parent is the validity of the struct
// around the column: a required field may be null in rows where this struct is null. If parent is
// nil, a required field must not have nulls.
func (conv *Conversion) Apply(data arrow.ArrayData, parent []byte, mem memory.Allocator) (arrow.ArrayData, error) {
	n, offset := data.Len(), data.Offset()
	buffers := slices.Clone(data.Buffers())
	nulls := nullCount(data)
	if conv.Required && nulls > 0 && !excused(buffers[0].Bytes(), parent, offset, n) {
		return nil, fmt.Errorf("required column %s has nulls", conv.Path)
	}
	var validity []byte
	if len(buffers) > 0 {
		if nulls == 0 {
			buffers[0] = nil
		} else {
			validity = buffers[0].Bytes()
		}
	}
	switch {
	case conv.promotion == allNull:
		return conv.allNulls(n, nulls, mem)
	case conv.promotion == fixedAsBinary:
		return conv.toBinary(data, validity, mem)
	case conv.promotion == narrowerDecimal:
		if err := conv.checkDigits(buffers[1], validity, offset, n); err != nil {
			return nil, err
		}
	case conv.unit.scales() || conv.promotion != unchanged:
		converted, err := conv.convert(buffers[1], validity, offset+n, mem)
		if err != nil {
			return nil, err
		}
		defer converted.Release()
		buffers[1] = converted
	}
	if conv.Flat && validity != nil {
		zeroNulls(buffers[1].Bytes(), validity, conv.Want.(arrow.FixedWidthDataType).Bytes(), offset+n)
	}
	excuse := validity
	if excuse == nil {
		excuse = parent // a required struct may be null in rows where the struct around it is null
	}
	children, err := conv.applyChildren(data, excuse, mem)
	defer batch.ReleaseAll(children...)
	if err != nil {
		return nil, err
	}
	return array.NewData(conv.Want, n, buffers, children, nulls, offset), nil
}

func (conv *Conversion) applyChildren(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out []arrow.ArrayData, err error) {
	switch want := conv.Want.(type) {
	case *arrow.StructType:
		if err := conv.checkFields(data); err != nil {
			return nil, err
		}
		return conv.fields(data.Children(), data.Offset()+data.Len(), validity, mem)
	case *arrow.ListType:
		if err := conv.checkOffsets(data); err != nil {
			return nil, err
		}
		return conv.fields(data.Children(), 0, nil, mem)
	case *arrow.MapType:
		if err := conv.checkOffsets(data); err != nil {
			return nil, err
		}
		pairs := data.Children()[0]
		if err := conv.checkFields(pairs); err != nil {
			return nil, err
		}
		fields, err := conv.fields(pairs.Children(), 0, nil, mem)
		defer batch.ReleaseAll(fields...)
		if err != nil {
			return nil, err
		}
		return []arrow.ArrayData{array.NewData(want.Elem(), pairs.Len(), []*memory.Buffer{nil}, fields, 0, pairs.Offset())}, nil
	default:
		return nil, nil
	}
}

// fields converts children. If it fails, it also returns the children that it converted before the
// error, for the caller to release. n is the length of struct fields that the file lacks.
func (conv *Conversion) fields(have []arrow.ArrayData, n int, validity []byte, mem memory.Allocator) ([]arrow.ArrayData, error) {
	out := make([]arrow.ArrayData, 0, len(conv.children))
	for i, child := range conv.children {
		field, err := child.field(have, conv.position(i), n, validity, mem)
		if err != nil {
			return out, err
		}
		out = append(out, field)
	}
	return out, nil
}

// position returns the position of a child in the file.
func (conv *Conversion) position(child int) int {
	if conv.from == nil {
		return child
	}
	return conv.from[child]
}

// field converts the child at a position in the file.
func (conv *Conversion) field(have []arrow.ArrayData, at, n int, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if at != absentField {
		return conv.Apply(have[at], validity, mem)
	}
	defer charged.Refused(&err) // recovered here, because the caller has to release the siblings
	if conv.absent != nil {
		values, err := conv.absent(n, nil, 0, mem)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		values.Data().Retain()
		return values.Data(), nil
	}
	nulls := batch.Nulls(conv.Want, n, mem)
	defer nulls.Release()
	if conv.Required && n > 0 && !excused(nulls.NullBitmapBytes(), validity, 0, n) {
		return nil, fmt.Errorf("the file has no column %s, which the table requires", conv.Path)
	}
	nulls.Data().Retain()
	return nulls.Data(), nil
}

// checkFields returns an error if a field of a struct has fewer values than the struct.
func (conv *Conversion) checkFields(data arrow.ArrayData) error {
	for _, child := range data.Children() {
		if child.Len() < data.Offset()+data.Len() {
			return fmt.Errorf("column %s has %d rows, but one of its fields has %d", conv.Path, data.Len(), child.Len())
		}
	}
	return nil
}

// checkOffsets returns an error if lists reach past their elements.
func (conv *Conversion) checkOffsets(data arrow.ArrayData) error {
	if data.Len() == 0 {
		return nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())
	end := data.Offset() + data.Len()
	if len(offsets) <= end || int(offsets[end]) > data.Children()[0].Len() {
		return fmt.Errorf("lists of column %s reach past their elements", conv.Path)
	}
	return nil
}

// convert converts n values to another unit or width.
func (conv *Conversion) convert(values *memory.Buffer, validity []byte, n int, mem memory.Allocator) (out *memory.Buffer, err error) {
	defer charged.Refused(&err) // recovered here, because the caller has to release the siblings
	var stored []byte           // empty if no list has an element
	if values != nil {
		stored = values.Bytes()
	}
	if len(stored) < n*conv.promotion.storedWidth() {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", conv.Path, len(stored), n)
	}
	out = memory.NewResizableBuffer(mem)
	defer func() {
		if err != nil {
			out.Release()
		}
	}()
	out.Resize(n * arrow.Int64SizeBytes)
	switch conv.promotion {
	case unchanged:
		err = conv.scale(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int64Traits.CastFromBytes(stored), validity)
	case int32AsInt64:
		widen(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int32Traits.CastFromBytes(stored))
	case float32AsFloat64:
		widen(arrow.Float64Traits.CastFromBytes(out.Bytes()), arrow.Float32Traits.CastFromBytes(stored))
	case millisAsMicros:
		millisToMicros(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int32Traits.CastFromBytes(stored))
	case fixedAsBinary, narrowerDecimal, allNull: // see Apply
	case dateAsMicros, dateAsNanos, int96AsMicros, int96AsNanos:
		err = conv.timestamps(arrow.Int64Traits.CastFromBytes(out.Bytes()), stored, validity)
	}
	return out, err
}

// scale converts times to another unit. Values under nulls become zero.
func (conv *Conversion) scale(out, values []int64, validity []byte) error {
	for i := range out {
		var ok bool
		if validity != nil && !bitutil.BitIsSet(validity, i) {
			out[i] = 0
		} else if out[i], ok = conv.unit.convert(values[i]); !ok {
			return conv.inexact(values[i])
		}
	}
	return nil
}

// inexact is the error for a time that the table's unit cannot represent.
func (conv *Conversion) inexact(stored int64) error {
	e := fault.New(fault.Invalid, "column %s holds %d in a unit that %s cannot represent exactly", conv.Path, stored, conv.Want)
	if conv.unit.div > 1 {
		return e.WithRemedy("rewrite the file with the column in the unit of %s, rounded as needed", conv.Want)
	}
	return e.WithRemedy("rewrite the file without this value: it is out of range for %s", conv.Want)
}

func (u unitChange) convert(v int64) (int64, bool) {
	if u.div > 1 {
		return v / u.div, v%u.div == 0
	}
	out := v * u.mul
	return out, out/u.mul == v
}

// nullCount returns the number of nulls. It trusts the null count that the data has already, and
// takes data without a validity bitmap to have no nulls.
func nullCount(data arrow.ArrayData) int {
	if len(data.Buffers()) == 0 || data.Buffers()[0] == nil {
		return 0
	}
	if nulls := data.NullN(); nulls >= 0 {
		return nulls
	}
	return data.Len() - bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len())
}

// excused reports whether every null has a null parent.
func excused(validity, parent []byte, offset, n int) bool {
	if parent == nil {
		return false
	}
	for i := offset; i < offset+n; i++ {
		if !bitutil.BitIsSet(validity, i) && bitutil.BitIsSet(parent, i) {
			return false
		}
	}
	return true
}
