package parquet

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/charged"
)

// conversion converts decoded arrays of a column to the wanted type. Most conversions
// only change the type of the same buffers. A conversion is built before anything is
// read, so that unsupported ones are refused first.
type conversion struct {
	path      string // for errors
	want      arrow.DataType
	required  bool
	loose     bool // required in the file, nullable in the table
	flat      bool // values under nulls still have to be cleared
	unit      unitChange
	promotion promotion
	children  []*conversion // of a list, a map (key and value) or a struct
	from      []int         // of a struct: positions of the children in the file, or absentField
	absent    Constant      // value of a struct field that the file lacks; nil: null
}

// absentField is the position of a struct field that the file lacks because it was added
// later.
const absentField = -1

// anyLoose reports whether the column, or anything in it, is required in the file but
// nullable in the table.
func (conv *conversion) anyLoose() bool {
	return conv.loose || slices.ContainsFunc(conv.children, (*conversion).anyLoose)
}

// unitChange scales timestamps and times: values are multiplied by mul, or divided by div
// without a remainder.
type unitChange struct{ mul, div int64 }

func (u unitChange) scales() bool { return u.mul > 1 || u.div > 1 }

// newConversion compares a column of the file with the wanted field. Fields of structs
// are matched by field id if both sides have ids, otherwise by name and position. Names
// of other nested fields are ignored.
func newConversion(path string, have, want arrow.Field, defaults map[int]Constant) (*conversion, error) {
	conv := &conversion{path: path, want: want.Type, required: !want.Nullable, loose: want.Nullable && !have.Nullable}
	if a, b := fieldID(have), fieldID(want); a != NoFieldID && b != NoFieldID && a != b {
		return nil, fault.New(fault.Invalid, "column %s has field id %d in the file, %d in the table", path, a, b).
			WithRemedy("rewrite the file through Iceberg")
	}
	stored := batch.StorageOf(have.Type)
	switch wanted := want.Type.(type) {
	case *arrow.ListType:
		if element, ok := listElement(stored); ok {
			return conv.nest([]string{"element"}, []arrow.Field{element}, []arrow.Field{wanted.ElemField()}, defaults)
		}
	case *arrow.MapType:
		if pair, ok := mapEntry(stored); ok {
			return conv.nest([]string{"key", "value"}, pair, []arrow.Field{wanted.KeyField(), wanted.ItemField()}, defaults)
		}
	case *arrow.StructType:
		if st, ok := stored.(*arrow.StructType); ok {
			return conv.structFields(st, wanted, defaults)
		}
	case *arrow.TimestampType:
		if ts, ok := stored.(*arrow.TimestampType); ok {
			conv.unit = change(ts.Unit, wanted.Unit)
			return conv, nil
		}
		var ok bool
		if conv.promotion, ok = timestampPromotion(stored, wanted); ok {
			return conv, nil
		}
	default:
		var ok bool
		if conv.promotion, ok = promotionOf(stored, want.Type); ok || arrow.TypeEqual(stored, want.Type) {
			return conv, nil
		}
		from, stored := stored.(*arrow.Time64Type)
		if to, wanted := want.Type.(*arrow.Time64Type); stored && wanted {
			conv.unit, conv.promotion = change(from.Unit, to.Unit), unchanged
			return conv, nil
		}
	}
	return nil, conv.mismatch(stored)
}

func (conv *conversion) nest(names []string, have, want []arrow.Field, defaults map[int]Constant) (*conversion, error) {
	for i := range want {
		child, err := newConversion(conv.path+"."+names[i], have[i], want[i], defaults)
		if err != nil {
			return nil, err
		}
		conv.children = append(conv.children, child)
	}
	return conv, nil
}

func (conv *conversion) structFields(have, want *arrow.StructType, defaults map[int]Constant) (*conversion, error) {
	byID := identified(have) && identified(want)
	for i, field := range want.Fields() {
		at := i
		switch {
		case byID:
			at = slices.IndexFunc(have.Fields(), func(f arrow.Field) bool { return fieldID(f) == fieldID(field) })
		case have.NumFields() != want.NumFields() || have.Field(i).Name != field.Name:
			return nil, fault.New(fault.Invalid, "struct %s has the fields %s in the file, without field ids, and %s in the table",
				conv.path, have, want).WithRemedy("rewrite the file through Iceberg")
		}
		child, err := conv.structField(have, at, field, defaults)
		if err != nil {
			return nil, err
		}
		conv.children, conv.from = append(conv.children, child), append(conv.from, at)
	}
	return conv, nil
}

// structField compares a wanted struct field with the one at a position in the file.
func (conv *conversion) structField(have *arrow.StructType, at int, want arrow.Field, defaults map[int]Constant) (*conversion, error) {
	path := conv.path + "." + want.Name
	if at != absentField {
		return newConversion(path, have.Field(at), want, defaults)
	}
	return &conversion{path: path, want: want.Type, required: !want.Nullable, absent: defaults[fieldID(want)]}, nil
}

// identified reports whether all fields of a struct have field ids.
func identified(t *arrow.StructType) bool {
	return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return fieldID(f) == NoFieldID })
}

// change returns the scale between two units. Time zones do not change values: all timestamps
// count from 1970-01-01 00:00, and the table's type determines whether that is in UTC.
func change(have, want arrow.TimeUnit) (u unitChange) {
	from, to := perSecond(have), perSecond(want)
	switch {
	case to > from:
		u.mul = to / from
	case to < from:
		u.div = from / to
	}
	return u
}

func perSecond(unit arrow.TimeUnit) int64 {
	return int64(math.Pow10(3 * int(unit))) // units are ordered from seconds to nanoseconds
}

func (conv *conversion) mismatch(stored arrow.DataType) error {
	return fault.New(fault.Invalid, "column %s is stored as %s, which this version does not read as %s", conv.path, stored, conv.want).
		WithRemedy("rewrite the file through Iceberg, or with the column in the table's type")
}

// apply converts decoded data. The caller releases the result. Nulls of required fields
// are allowed where parent, the validity of the struct around them, is null too; if
// parent is nil, nowhere.
func (conv *conversion) apply(data arrow.ArrayData, parent []byte, mem memory.Allocator) (arrow.ArrayData, error) {
	n, offset := data.Len(), data.Offset()
	buffers := slices.Clone(data.Buffers())
	nulls := nullCount(data)
	if conv.required && nulls > 0 && !excused(buffers[0].Bytes(), parent, offset, n) {
		return nil, fmt.Errorf("required column %s has nulls", conv.path)
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
	if conv.flat && validity != nil {
		zeroNulls(buffers[1].Bytes(), validity, conv.want.(arrow.FixedWidthDataType).Bytes(), offset+n)
	}
	excuse := validity
	if excuse == nil {
		excuse = parent // a required struct is null where the struct around it is
	}
	children, err := conv.applyChildren(data, excuse, mem)
	defer batch.ReleaseAll(children...)
	if err != nil {
		return nil, err
	}
	return array.NewData(conv.want, n, buffers, children, nulls, offset), nil
}

func (conv *conversion) applyChildren(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out []arrow.ArrayData, err error) {
	switch want := conv.want.(type) {
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

// fields converts children. On an error it also returns those converted before it, for
// the caller to release. n is the length of struct fields that the file lacks.
func (conv *conversion) fields(have []arrow.ArrayData, n int, validity []byte, mem memory.Allocator) ([]arrow.ArrayData, error) {
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
func (conv *conversion) position(child int) int {
	if conv.from == nil {
		return child
	}
	return conv.from[child]
}

// field converts the child at a position in the file.
func (conv *conversion) field(have []arrow.ArrayData, at, n int, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if at != absentField {
		return conv.apply(have[at], validity, mem)
	}
	defer charged.Refused(&err) // here, as siblings have to be released
	if conv.absent != nil {
		values, err := conv.absent(n, nil, 0, mem)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		values.Data().Retain()
		return values.Data(), nil
	}
	nulls := batch.Nulls(conv.want, n, mem)
	defer nulls.Release()
	if conv.required && n > 0 && !excused(nulls.NullBitmapBytes(), validity, 0, n) {
		return nil, fmt.Errorf("the file has no column %s, which the table requires", conv.path)
	}
	nulls.Data().Retain()
	return nulls.Data(), nil
}

// checkFields returns an error if a field of a struct has fewer values than the struct.
func (conv *conversion) checkFields(data arrow.ArrayData) error {
	for _, child := range data.Children() {
		if child.Len() < data.Offset()+data.Len() {
			return fmt.Errorf("column %s has %d rows, but one of its fields has %d", conv.path, data.Len(), child.Len())
		}
	}
	return nil
}

// checkOffsets returns an error if lists reach past their elements.
func (conv *conversion) checkOffsets(data arrow.ArrayData) error {
	if data.Len() == 0 {
		return nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())
	end := data.Offset() + data.Len()
	if len(offsets) <= end || int(offsets[end]) > data.Children()[0].Len() {
		return fmt.Errorf("lists of column %s reach past their elements", conv.path)
	}
	return nil
}

// convert converts n values to another unit or width.
func (conv *conversion) convert(values *memory.Buffer, validity []byte, n int, mem memory.Allocator) (out *memory.Buffer, err error) {
	defer charged.Refused(&err) // here, as siblings have to be released
	var stored []byte           // empty if no list has an element
	if values != nil {
		stored = values.Bytes()
	}
	if len(stored) < n*conv.promotion.storedWidth() {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", conv.path, len(stored), n)
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
	case fixedAsBinary, narrowerDecimal, allNull: // see apply
	case dateAsMicros, dateAsNanos, int96AsMicros, int96AsNanos:
		err = conv.timestamps(arrow.Int64Traits.CastFromBytes(out.Bytes()), stored, validity)
	}
	return out, err
}

// scale converts times to another unit. Those under nulls become zero.
func (conv *conversion) scale(out, values []int64, validity []byte) error {
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
func (conv *conversion) inexact(stored int64) error {
	e := fault.New(fault.Invalid, "column %s holds %d in a unit that %s cannot represent exactly", conv.path, stored, conv.want)
	if conv.unit.div > 1 {
		return e.WithRemedy("rewrite the file with the column in the unit of %s, rounded as needed", conv.want)
	}
	return e.WithRemedy("rewrite the file without this value: it is out of range for %s", conv.want)
}

func (u unitChange) convert(v int64) (int64, bool) {
	if u.div > 1 {
		return v / u.div, v%u.div == 0
	}
	out := v * u.mul
	return out, out/u.mul == v
}

// nullCount returns the number of nulls. It trusts the count of the data, and the absence
// of a validity bitmap.
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
