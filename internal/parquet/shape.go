package parquet

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// shape turns decoded arrays of one column into the wanted type. Most of that
// is relabelling: same buffers, another type. It is built before anything is
// read, so that what cannot be served is refused first.
type shape struct {
	path     string // for errors
	want     arrow.DataType
	required bool
	loose    bool // the file has it as required, and it is not wanted so
	flat     bool // values under nulls are still to be cleared
	unit     unitChange
	widening widening
	children []*shape // element; or key and value; or a struct's fields
	from     []int    // of a struct's fields: their positions in the file; absentField for those that it lacks
	absent   Constant // of a struct's field that the file lacks; nil is null
}

// absentField is the position of a struct's field that a file lacks: it was added
// later.
const absentField = -1

// looser says whether the column, or something in it, is required in the file
// alone.
func (s *shape) looser() bool { return s.loose || slices.ContainsFunc(s.children, (*shape).looser) }

// unitChange scales timestamps and times: times mul, or exactly divided by div.
type unitChange struct{ mul, div int64 }

func (u unitChange) scales() bool { return u.mul > 1 || u.div > 1 }

// newShape compares a column of the file with the wanted field. Fields of structs are
// found by their field ids where both sides have them, and by name and place where
// not; names of others that are nested do not matter.
func newShape(path string, have, want arrow.Field, defaults map[int]Constant) (*shape, error) {
	s := &shape{path: path, want: want.Type, required: !want.Nullable, loose: want.Nullable && !have.Nullable}
	if a, b := fieldID(have), fieldID(want); a != NoFieldID && b != NoFieldID && a != b {
		return nil, fault.New(fault.Invalid, "column %s has field id %d in the file, %d in the table", path, a, b).
			WithRemedy("rewrite the file through Iceberg")
	}
	stored := storageOf(have.Type)
	switch wanted := want.Type.(type) {
	case *arrow.ListType:
		if element, ok := elementOf(stored); ok {
			return s.nest([]string{"element"}, []arrow.Field{element}, []arrow.Field{wanted.ElemField()}, defaults)
		}
	case *arrow.MapType:
		if pair, ok := pairOf(stored); ok {
			return s.nest([]string{"key", "value"}, pair, []arrow.Field{wanted.KeyField(), wanted.ItemField()}, defaults)
		}
	case *arrow.StructType:
		if st, ok := stored.(*arrow.StructType); ok {
			return s.structFields(st, wanted, defaults)
		}
	case *arrow.TimestampType:
		if ts, ok := stored.(*arrow.TimestampType); ok {
			s.unit = change(ts.Unit, wanted.Unit)
			return s, nil
		}
		var ok bool
		if s.widening, ok = instants(stored, wanted); ok {
			return s, nil
		}
	default:
		var ok bool
		if s.widening, ok = widens(stored, want.Type); ok || arrow.TypeEqual(stored, want.Type) {
			return s, nil
		}
		from, stored := stored.(*arrow.Time64Type)
		if to, wanted := want.Type.(*arrow.Time64Type); stored && wanted {
			s.unit, s.widening = change(from.Unit, to.Unit), sameWidth
			return s, nil
		}
	}
	return nil, s.mismatch(stored)
}

func (s *shape) nest(names []string, have, want []arrow.Field, defaults map[int]Constant) (*shape, error) {
	for i := range want {
		child, err := newShape(s.path+"."+names[i], have[i], want[i], defaults)
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, child)
	}
	return s, nil
}

func (s *shape) structFields(have, want *arrow.StructType, defaults map[int]Constant) (*shape, error) {
	byID := identified(have) && identified(want)
	for i, field := range want.Fields() {
		at := i
		switch {
		case byID:
			at = slices.IndexFunc(have.Fields(), func(f arrow.Field) bool { return fieldID(f) == fieldID(field) })
		case have.NumFields() != want.NumFields() || have.Field(i).Name != field.Name:
			return nil, fault.New(fault.Invalid, "struct %s has the fields %s in the file without field ids, %s in the table",
				s.path, have, want).WithRemedy("rewrite the file through Iceberg")
		}
		child, err := s.structField(have, at, field, defaults)
		if err != nil {
			return nil, err
		}
		s.children, s.from = append(s.children, child), append(s.from, at)
	}
	return s, nil
}

// structField compares a field of a struct with the one at a position in the file.
func (s *shape) structField(have *arrow.StructType, at int, want arrow.Field, defaults map[int]Constant) (*shape, error) {
	path := s.path + "." + want.Name
	if at != absentField {
		return newShape(path, have.Field(at), want, defaults)
	}
	return &shape{path: path, want: want.Type, required: !want.Nullable, absent: defaults[fieldID(want)]}, nil
}

// identified says whether all fields of a struct have field ids.
func identified(t *arrow.StructType) bool {
	return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return fieldID(f) == NoFieldID })
}

// change returns how a number of one unit becomes one of another. The zone of a timestamp
// changes no number: each counts from 1970-01-01 00:00, and the table says whether that is
// in UTC.
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
	return int64(math.Pow10(3 * int(unit))) // the units are ordered from seconds to nanoseconds
}

func (s *shape) mismatch(stored arrow.DataType) error {
	return fault.New(fault.Invalid, "column %s is stored as %s, which this version does not read as %s", s.path, stored, s.want).
		WithRemedy("rewrite the file through Iceberg, or with the column in the table's type")
}

// apply gives decoded data the wanted form. It returns a new reference. The
// parent's validity excuses nulls of required fields inside null structs; nil
// excuses none.
func (s *shape) apply(data arrow.ArrayData, parent []byte, mem memory.Allocator) (arrow.ArrayData, error) {
	n, offset := data.Len(), data.Offset()
	buffers := slices.Clone(data.Buffers())
	nulls := nullCount(data)
	if s.required && nulls > 0 && !excused(buffers[0].Bytes(), parent, offset, n) {
		return nil, fmt.Errorf("required column %s has nulls", s.path)
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
	case s.widening == nullsAlone:
		return s.withoutValues(n, nulls, mem)
	case s.widening == oneWidth:
		return s.anyWidth(data, validity, mem)
	case s.widening == moreDigits:
		if err := s.fewerDigits(buffers[1], validity, offset, n); err != nil {
			return nil, err
		}
	case s.unit.scales() || s.widening != sameWidth:
		converted, err := s.convert(buffers[1], validity, offset+n, mem)
		if err != nil {
			return nil, err
		}
		defer converted.Release()
		buffers[1] = converted
	}
	if s.flat && validity != nil {
		zeroNulls(buffers[1].Bytes(), validity, s.want.(arrow.FixedWidthDataType).Bytes(), offset+n)
	}
	excuse := validity
	if excuse == nil {
		excuse = parent // a struct that is required is null with the one around it
	}
	children, err := s.applyChildren(data, excuse, mem)
	defer func() {
		for _, child := range children {
			child.Release()
		}
	}()
	if err != nil {
		return nil, err
	}
	return array.NewData(s.want, n, buffers, children, nulls, offset), nil
}

func (s *shape) applyChildren(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out []arrow.ArrayData, err error) {
	switch want := s.want.(type) {
	case *arrow.StructType:
		if err := s.checkFields(data); err != nil {
			return nil, err
		}
		return s.fields(data.Children(), data.Offset()+data.Len(), validity, mem)
	case *arrow.ListType:
		if err := s.checkOffsets(data); err != nil {
			return nil, err
		}
		return s.fields(data.Children(), 0, nil, mem)
	case *arrow.MapType:
		if err := s.checkOffsets(data); err != nil {
			return nil, err
		}
		pairs := data.Children()[0]
		if err := s.checkFields(pairs); err != nil {
			return nil, err
		}
		fields, err := s.fields(pairs.Children(), 0, nil, mem)
		defer func() {
			for _, field := range fields {
				field.Release()
			}
		}()
		if err != nil {
			return nil, err
		}
		return []arrow.ArrayData{array.NewData(want.Elem(), pairs.Len(), []*memory.Buffer{nil}, fields, 0, pairs.Offset())}, nil
	default:
		return nil, nil
	}
}

// fields applies the children's shapes; on an error it returns what is done
// so far, for the caller to release. A struct's are n long, if the file lacks them.
func (s *shape) fields(have []arrow.ArrayData, n int, validity []byte, mem memory.Allocator) ([]arrow.ArrayData, error) {
	out := make([]arrow.ArrayData, 0, len(s.children))
	for i, child := range s.children {
		field, err := child.field(have, s.position(i), n, validity, mem)
		if err != nil {
			return out, err
		}
		out = append(out, field)
	}
	return out, nil
}

// position returns where a child stands in the file.
func (s *shape) position(child int) int {
	if s.from == nil {
		return child
	}
	return s.from[child]
}

// field applies the shape to the field of a struct at a position.
func (s *shape) field(have []arrow.ArrayData, at, n int, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if at != absentField {
		return s.apply(have[at], validity, mem)
	}
	defer refused(&err) // here, as its siblings are to be released
	if s.absent != nil {
		values, err := s.absent(n, nil, 0, mem)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		values.Data().Retain()
		return values.Data(), nil
	}
	nulls := array.MakeArrayOfNull(cleared{mem}, s.want, n)
	defer nulls.Release()
	if s.required && n > 0 && !excused(nulls.NullBitmapBytes(), validity, 0, n) {
		return nil, fmt.Errorf("the file has no column %s, which the table requires", s.path)
	}
	nulls.Data().Retain()
	return nulls.Data(), nil
}

// checkFields sees that a struct has as many values in each field as it has rows.
func (s *shape) checkFields(data arrow.ArrayData) error {
	for _, child := range data.Children() {
		if child.Len() < data.Offset()+data.Len() {
			return fmt.Errorf("column %s has %d rows, a field of it has %d", s.path, data.Len(), child.Len())
		}
	}
	return nil
}

// checkOffsets sees that lists do not reach past their elements.
func (s *shape) checkOffsets(data arrow.ArrayData) error {
	if data.Len() == 0 {
		return nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(data.Buffers()[1].Bytes())
	end := data.Offset() + data.Len()
	if len(offsets) <= end || int(offsets[end]) > data.Children()[0].Len() {
		return fmt.Errorf("lists of column %s reach past their elements", s.path)
	}
	return nil
}

// convert makes n values of another unit or width.
func (s *shape) convert(values *memory.Buffer, validity []byte, n int, mem memory.Allocator) (out *memory.Buffer, err error) {
	defer refused(&err) // here, as others of a nested column are to be released
	var stored []byte   // nothing, where no list has an element
	if values != nil {
		stored = values.Bytes()
	}
	if len(stored) < n*s.widening.stored() {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", s.path, len(stored), n)
	}
	out = memory.NewResizableBuffer(mem)
	defer func() {
		if err != nil {
			out.Release()
		}
	}()
	out.Resize(n * arrow.Int64SizeBytes)
	switch s.widening {
	case sameWidth:
		err = s.scale(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int64Traits.CastFromBytes(stored), validity)
	case toInt64:
		widen(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int32Traits.CastFromBytes(stored))
	case toFloat64:
		widen(arrow.Float64Traits.CastFromBytes(out.Bytes()), arrow.Float32Traits.CastFromBytes(stored))
	case millisOfDay:
		microsOfDay(arrow.Int64Traits.CastFromBytes(out.Bytes()), arrow.Int32Traits.CastFromBytes(stored))
	case oneWidth, moreDigits, nullsAlone: // see apply
	case dateMicros, dateNanos, int96Micros, int96Nanos:
		err = s.instants(arrow.Int64Traits.CastFromBytes(out.Bytes()), stored, validity)
	}
	return out, err
}

// scale converts timestamps to another unit. Those under nulls become zero.
func (s *shape) scale(out, values []int64, validity []byte) error {
	for i := range out {
		var ok bool
		if validity != nil && !bitutil.BitIsSet(validity, i) {
			out[i] = 0
		} else if out[i], ok = s.unit.convert(values[i]); !ok {
			return s.inexact(values[i])
		}
	}
	return nil
}

// inexact is the error of a time that the table's unit cannot say.
func (s *shape) inexact(stored int64) error {
	e := fault.New(fault.Invalid, "column %s holds %d of a unit that %s cannot say", s.path, stored, s.want)
	if s.unit.div > 1 {
		return e.WithRemedy("rewrite the file with the column in the unit of %s, rounded as you need it", s.want)
	}
	return e.WithRemedy("rewrite the file without this value: it lies outside the years that %s reaches", s.want)
}

func (u unitChange) convert(v int64) (int64, bool) {
	if u.div > 1 {
		return v / u.div, v%u.div == 0
	}
	out := v * u.mul
	return out, out/u.mul == v
}

// nullCount trusts the count that came with the data, and the lack of a
// validity bitmap.
func nullCount(data arrow.ArrayData) int {
	if len(data.Buffers()) == 0 || data.Buffers()[0] == nil {
		return 0
	}
	if nulls := data.NullN(); nulls >= 0 {
		return nulls
	}
	return data.Len() - bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len())
}

// excused says whether every null has a null parent.
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
