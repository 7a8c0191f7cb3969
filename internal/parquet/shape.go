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
	children []*shape // element; or key and value; or a struct's fields
}

// looser says whether the column, or something in it, is required in the file
// alone.
func (s *shape) looser() bool { return s.loose || slices.ContainsFunc(s.children, (*shape).looser) }

// unitChange scales timestamps: times mul, or exactly divided by div.
type unitChange struct{ mul, div int64 }

func (u unitChange) scales() bool { return u.mul > 1 || u.div > 1 }

// newShape compares a column of the file with the wanted field. Names of
// nested fields do not matter, save for structs; field ids matter where both
// sides have them.
func newShape(path string, have, want arrow.Field) (*shape, error) {
	s := &shape{path: path, want: want.Type, required: !want.Nullable, loose: want.Nullable && !have.Nullable}
	if a, b := fieldID(have), fieldID(want); a != NoFieldID && b != NoFieldID && a != b {
		return nil, fault.New(fault.Invalid, "column %s has field id %d in the file, %d in the table: evolved nested columns are not served by this version", path, a, b)
	}
	stored := storageOf(have.Type)
	switch wanted := want.Type.(type) {
	case *arrow.ListType:
		if list, ok := stored.(*arrow.ListType); ok {
			return s.nest([]string{"element"}, []arrow.Field{list.ElemField()}, []arrow.Field{wanted.ElemField()})
		}
	case *arrow.MapType:
		if m, ok := stored.(*arrow.MapType); ok {
			return s.nest([]string{"key", "value"}, []arrow.Field{m.KeyField(), m.ItemField()},
				[]arrow.Field{wanted.KeyField(), wanted.ItemField()})
		}
	case *arrow.StructType:
		if st, ok := stored.(*arrow.StructType); ok {
			return s.structFields(st, wanted)
		}
	case *arrow.TimestampType:
		if ts, ok := stored.(*arrow.TimestampType); ok {
			return s, s.timestamp(ts, wanted)
		}
	default:
		if arrow.TypeEqual(stored, want.Type) {
			return s, nil
		}
	}
	return nil, s.mismatch(stored)
}

func (s *shape) nest(names []string, have, want []arrow.Field) (*shape, error) {
	for i := range want {
		child, err := newShape(s.path+"."+names[i], have[i], want[i])
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, child)
	}
	return s, nil
}

func (s *shape) structFields(have, want *arrow.StructType) (*shape, error) {
	names := make([]string, want.NumFields())
	for i := range names {
		names[i] = want.Field(i).Name
		if have.NumFields() != want.NumFields() || have.Field(i).Name != names[i] {
			return nil, fault.New(fault.Invalid, "struct %s has the fields %s in the file, %s in the table: evolved nested columns are not served by this version",
				s.path, have, want)
		}
	}
	return s.nest(names, have.Fields(), want.Fields())
}

// timestamp accepts any unit, as long as each value can be said in the wanted
// one, and any name for UTC.
func (s *shape) timestamp(have, want *arrow.TimestampType) error {
	if (have.TimeZone == "") != (want.TimeZone == "") {
		return s.mismatch(have)
	}
	from, to := perSecond(have.Unit), perSecond(want.Unit)
	switch {
	case to > from:
		s.unit.mul = to / from
	case to < from:
		s.unit.div = from / to
	}
	return nil
}

func perSecond(unit arrow.TimeUnit) int64 {
	return int64(math.Pow10(3 * int(unit))) // the units are ordered from seconds to nanoseconds
}

func (s *shape) mismatch(stored arrow.DataType) error {
	if promoted(stored, s.want) {
		return fault.New(fault.Invalid, "column %s is stored as %s and was promoted to %s: promoted columns are not served by this version",
			s.path, stored, s.want).WithRemedy("rewrite the table's older files (compaction with the current schema)")
	}
	return fault.New(fault.Invalid, "column %s is stored as %s, which this version does not read as %s", s.path, stored, s.want)
}

// promoted knows the type promotions of the Iceberg specification.
func promoted(have, want arrow.DataType) bool {
	switch a := have.(type) {
	case *arrow.Int32Type:
		return want.ID() == arrow.INT64
	case *arrow.Float32Type:
		return want.ID() == arrow.FLOAT64
	case *arrow.Date32Type:
		return want.ID() == arrow.TIMESTAMP
	case arrow.DecimalType:
		b, ok := want.(arrow.DecimalType)
		return ok && a.GetScale() == b.GetScale() && a.GetPrecision() < b.GetPrecision()
	default:
		return false
	}
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
	if s.unit.scales() {
		scaled, err := s.scale(buffers[1], validity, offset+n, mem)
		if err != nil {
			return nil, err
		}
		defer scaled.Release()
		buffers[1] = scaled
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
		return s.fields(data.Children(), validity, mem)
	case *arrow.ListType:
		if err := s.checkOffsets(data); err != nil {
			return nil, err
		}
		return s.fields(data.Children(), nil, mem)
	case *arrow.MapType:
		if err := s.checkOffsets(data); err != nil {
			return nil, err
		}
		pairs := data.Children()[0]
		if err := s.checkFields(pairs); err != nil {
			return nil, err
		}
		fields, err := s.fields(pairs.Children(), nil, mem)
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
// so far, for the caller to release.
func (s *shape) fields(have []arrow.ArrayData, validity []byte, mem memory.Allocator) ([]arrow.ArrayData, error) {
	out := make([]arrow.ArrayData, 0, len(s.children))
	for i, child := range s.children {
		field, err := child.apply(have[i], validity, mem)
		if err != nil {
			return out, err
		}
		out = append(out, field)
	}
	return out, nil
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

// scale converts n timestamps. Values under nulls become zero.
func (s *shape) scale(values *memory.Buffer, validity []byte, n int, mem memory.Allocator) (out *memory.Buffer, err error) {
	defer refused(&err) // here, as others of a nested column are to be released
	in := arrow.Int64Traits.CastFromBytes(values.Bytes())
	if len(in) < n {
		return nil, fmt.Errorf("column %s has %d values, not %d", s.path, len(in), n)
	}
	scaled := memory.NewResizableBuffer(mem)
	scaled.Resize(n * arrow.Int64SizeBytes)
	to := arrow.Int64Traits.CastFromBytes(scaled.Bytes())
	for i, v := range in[:n] {
		var ok bool
		if validity != nil && !bitutil.BitIsSet(validity, i) {
			to[i] = 0
		} else if to[i], ok = s.unit.convert(v); !ok {
			scaled.Release()
			return nil, fault.New(fault.Invalid, "column %s holds %d of a unit that %s cannot say", s.path, v, s.want)
		}
	}
	return scaled, nil
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
