// Package convert converts decoded columns of a Parquet file to the types of a table.
package convert

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Conversion converts decoded arrays of a column to the wanted type. Most conversions
// only change the type of the same buffers. A conversion is built before anything is
// read, so that unsupported ones are refused first.
type Conversion struct {
	Path     string // for errors
	Want     arrow.DataType
	Required bool
	Flat     bool // whether values under nulls still have to be cleared

	loose     bool // required in the file, nullable in the table
	unit      unitChange
	promotion promotion
	children  []*Conversion // of a list, a map (key and value) or a struct
	from      []int         // of a struct: positions of the children in the file, or absentField
	absent    Constant      // value of a struct field that the file lacks; nil: null
}

// absentField is the position of a struct field that the file lacks because it was added
// later.
const absentField = -1

// AnyLoose reports whether the column, or anything inside it, is required in the file but nullable
// in the table.
func (conv *Conversion) AnyLoose() bool {
	return conv.loose || slices.ContainsFunc(conv.children, (*Conversion).AnyLoose)
}

// Unchanged reports whether the stored values have the form of the wanted type already, so that no
// promotion changes them.
func (conv *Conversion) Unchanged() bool { return conv.promotion == unchanged }

// unitChange scales timestamps and times: values are multiplied by mul, or divided by div
// without a remainder.
type unitChange struct{ mul, div int64 }

func (u unitChange) scales() bool { return u.mul > 1 || u.div > 1 }

// Constant makes a column of one value, in memory of mem, for the caller to release. A
// row is null if valid is not nil and its bit, counted from offset, is not set.
type Constant func(rows int, valid []byte, offset int, mem memory.Allocator) (arrow.Array, error)

// Absent returns the conversion of a column that the file lacks.
func Absent(path string, want arrow.DataType) *Conversion {
	return &Conversion{Path: path, Want: plain(want)}
}

// Nulls is a Constant whose value is null.
func (conv *Conversion) Nulls(rows int, _ []byte, _ int, mem memory.Allocator) (arrow.Array, error) {
	return batch.Nulls(conv.Want, rows, mem), nil
}

// New compares a column of the file with the wanted field, and returns Invalid if it cannot be converted.
func New(path string, have, want arrow.Field, defaults map[int]Constant) (*Conversion, error) {
	conv, err := newConversion(path, have, want, defaults)
	if err != nil {
		return nil, err
	}
	conv.strip()
	conv.Flat = overwritesValues(conv.Want)
	return conv, nil
}

// strip removes the metadata of nested fields from the wanted types.
func (conv *Conversion) strip() {
	conv.Want = plain(conv.Want)
	for _, child := range conv.children {
		child.strip()
	}
}

// newConversion compares a column of the file with the wanted field. Fields of structs
// are matched by field id if both sides have ids, otherwise by name and position. Names
// of other nested fields are ignored.
func newConversion(path string, have, want arrow.Field, defaults map[int]Constant) (*Conversion, error) {
	conv := &Conversion{Path: path, Want: want.Type, Required: !want.Nullable, loose: want.Nullable && !have.Nullable}
	if a, b := FieldID(have), FieldID(want); a != NoFieldID && b != NoFieldID && a != b {
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
		if pair, ok := MapEntry(stored); ok {
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

// Checked returns coded data as an array. Coded data needs no conversion, but Checked returns an
// error for nulls in a required column.
func (conv *Conversion) Checked(coded arrow.ArrayData) (arrow.Array, error) {
	if conv.Required && nullCount(coded) > 0 {
		return nil, fmt.Errorf("required column %s has nulls", conv.Path)
	}
	return array.MakeFromData(coded), nil
}

func (conv *Conversion) nest(names []string, have, want []arrow.Field, defaults map[int]Constant) (*Conversion, error) {
	for i := range want {
		child, err := newConversion(conv.Path+"."+names[i], have[i], want[i], defaults)
		if err != nil {
			return nil, err
		}
		conv.children = append(conv.children, child)
	}
	return conv, nil
}

func (conv *Conversion) structFields(have, want *arrow.StructType, defaults map[int]Constant) (*Conversion, error) {
	byID := identified(have) && identified(want)
	for i, field := range want.Fields() {
		at := i
		switch {
		case byID:
			at = slices.IndexFunc(have.Fields(), func(f arrow.Field) bool { return FieldID(f) == FieldID(field) })
		case have.NumFields() != want.NumFields() || have.Field(i).Name != field.Name:
			return nil, fault.New(fault.Invalid, "struct %s has the fields %s in the file, without field ids, and %s in the table",
				conv.Path, have, want).WithRemedy("rewrite the file through Iceberg")
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
func (conv *Conversion) structField(have *arrow.StructType, at int, want arrow.Field, defaults map[int]Constant) (*Conversion, error) {
	path := conv.Path + "." + want.Name
	if at != absentField {
		return newConversion(path, have.Field(at), want, defaults)
	}
	return &Conversion{Path: path, Want: want.Type, Required: !want.Nullable, absent: defaults[FieldID(want)]}, nil
}

// identified reports whether all fields of a struct have field ids.
func identified(t *arrow.StructType) bool {
	return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return FieldID(f) == NoFieldID })
}

// change returns the unitChange between two units. Time zones do not change values: all timestamps
// count from 1970-01-01 00:00, and the table's type determines whether this instant is in UTC.
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

func (conv *Conversion) mismatch(stored arrow.DataType) error {
	return fault.New(fault.Invalid, "column %s is stored as %s, which this version does not read as %s", conv.Path, stored, conv.Want).
		WithRemedy("rewrite the file through Iceberg, or with the column in the table's type")
}
