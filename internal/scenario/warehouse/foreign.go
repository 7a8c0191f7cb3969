package warehouse

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Stored is a form in which a file stores a column, other than the form that Iceberg specifies.
type Stored string

// The forms that columns are stored in.
const (
	AsByte          Stored = "byte"
	AsShort         Stored = "short"
	AsUnsignedByte  Stored = "unsigned byte"
	AsUnsignedShort Stored = "unsigned short"
	AsDays          Stored = "days"         // a date without its annotation
	AsMicroseconds  Stored = "microseconds" // a timestamp without its annotation
	OfOtherZone     Stored = "other zone"   // with a zone if the table's type has no zone, or the other way round
	OfMillis        Stored = "milliseconds"
	OfNanos         Stored = "nanoseconds"
	OfMoreDigits    Stored = "more digits"
	OfOneWidth      Stored = "one width"
	OfNulls         Stored = "nulls"
)

// AllStored are all forms.
func AllStored() []Stored {
	return []Stored{
		AsByte, AsShort, AsUnsignedByte, AsUnsignedShort, AsDays, AsMicroseconds, OfOtherZone, OfMillis, OfNanos, OfMoreDigits, OfOneWidth, OfNulls,
	}
}

// foreign stores some of a file's columns in the forms that tools without Iceberg write, if this is
// lossless, and records these columns. One file in three has such columns.
func (w *table) foreign(writer style, columns []physical, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	if w.types.IntN(3) > 0 {
		rows.Retain()
		return rows, nil
	}
	fields, values := rows.Schema().Fields(), make([]arrow.Array, rows.NumCols())
	for i := range fields {
		values[i] = rows.Column(i)
		if w.types.IntN(2) > 0 {
			continue
		}
		all := forms(fields[i].Type)
		if fields[i].Nullable && values[i].NullN() == values[i].Len() && !arrow.IsNested(fields[i].Type.ID()) {
			all = append(all, form{OfNulls, arrow.Null})
		}
		if len(all) == 0 {
			continue
		}
		one := all[w.types.IntN(len(all))]
		if stored := one.of(values[i], writer.groups); stored != nil {
			defer stored.Release()
			values[i], fields[i].Type = stored, stored.DataType()
			if at := columns[i].from; at != gone && !columns[i].was {
				name := w.fields[at].Name
				w.stores[name] = append(w.stores[name], one.name)
			}
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), values, rows.NumRows()), nil
}

// form is one way to store a column.
type form struct {
	name Stored
	as   arrow.DataType
}

// forms returns the forms in which columns of a type may be stored.
func forms(t arrow.DataType) []form {
	small := []form{
		{AsByte, arrow.PrimitiveTypes.Int8},
		{AsShort, arrow.PrimitiveTypes.Int16},
		{AsUnsignedByte, arrow.PrimitiveTypes.Uint8},
		{AsUnsignedShort, arrow.PrimitiveTypes.Uint16},
	}
	switch t := t.(type) {
	case *arrow.Int32Type, *arrow.Int64Type:
		return small
	case *arrow.Date32Type:
		return []form{{AsDays, arrow.PrimitiveTypes.Int32}}
	case *arrow.Time64Type:
		return []form{{OfMillis, arrow.FixedWidthTypes.Time32ms}, {OfNanos, arrow.FixedWidthTypes.Time64ns}}
	case *arrow.TimestampType:
		zone := "UTC"
		if t.TimeZone != "" {
			zone = ""
		}
		all := []form{{OfOtherZone, &arrow.TimestampType{Unit: t.Unit, TimeZone: zone}}}
		for _, z := range []string{"", "UTC"} {
			all = append(all, form{OfMillis, &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: z}})
			if t.Unit == arrow.Microsecond {
				all = append(all, form{OfNanos, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: z}})
			}
		}
		if t.Unit == arrow.Microsecond {
			all = append(all, form{AsMicroseconds, arrow.PrimitiveTypes.Int64})
		}
		return all
	case *arrow.Decimal128Type:
		if t.Precision < maxDigits {
			return []form{{OfMoreDigits, &arrow.Decimal128Type{Precision: maxDigits, Scale: t.Scale}}}
		}
	case *arrow.BinaryType:
		return []form{{OfOneWidth, nil}}
	}
	return nil
}

// maxDigits is the maximum number of digits of a decimal.
const maxDigits = 38

// of returns a column in the form. It returns nil if the form cannot represent a value, or if a
// reader could not recognize the form: readers recognize times in nanoseconds by their statistics.
// The caller releases the result.
func (f form) of(values arrow.Array, statistics bool) arrow.Array {
	switch f.name {
	case AsDays, AsMicroseconds, OfOtherZone:
		return array.MakeFromData(withType(values.Data(), f.as))
	case OfNulls:
		return array.NewNull(values.Len())
	case OfOneWidth:
		return oneWidth(values.(*array.Binary))
	case OfMillis, OfNanos:
		if times, ok := values.(*array.Time64); ok && f.name == OfNanos && (!statistics || !late(times)) {
			return nil
		}
		return rescaled(values, f.as)
	case AsByte, AsShort, AsUnsignedByte, AsUnsignedShort, OfMoreDigits:
	}
	out, err := compute.CastArray(context.Background(), values, compute.SafeCastOptions(f.as))
	if err != nil {
		return nil
	}
	return out
}

// rescaled returns times or timestamps in another unit.
func rescaled(values arrow.Array, as arrow.DataType) arrow.Array {
	from, to := unitOf(values.DataType()), unitOf(as)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	numbers := array.MakeFromData(withType(values.Data(), arrow.PrimitiveTypes.Int64)).(*array.Int64)
	defer numbers.Release()
	for i := range numbers.Len() {
		switch v := numbers.Value(i); {
		case numbers.IsNull(i):
			b.AppendNull()
		case to > from && v*(to/from)/(to/from) == v:
			b.Append(v * (to / from))
		case to < from && v%(from/to) == 0:
			b.Append(v / (from / to))
		default:
			return nil
		}
	}
	scaled := b.NewArray()
	if as.ID() != arrow.TIME32 {
		defer scaled.Release()
		return array.MakeFromData(withType(scaled.Data(), as))
	}
	defer scaled.Release()
	narrow, err := compute.CastArray(context.Background(), scaled, compute.SafeCastOptions(arrow.PrimitiveTypes.Int32))
	if err != nil {
		return nil
	}
	defer narrow.Release()
	return array.MakeFromData(withType(narrow.Data(), as))
}

// late reports whether a time of day in microseconds, taken as nanoseconds, exceeds the
// number of microseconds of a day.
func late(times *array.Time64) bool {
	const day = 86_400_000_000
	for i := range times.Len() {
		if times.IsValid(i) && int64(times.Value(i))*1000 >= day {
			return true
		}
	}
	return false
}

// unitOf returns the number of a type's units in a second.
func unitOf(t arrow.DataType) int64 {
	var unit arrow.TimeUnit
	switch t := t.(type) {
	case *arrow.TimestampType:
		unit = t.Unit
	case *arrow.Time64Type:
		unit = t.Unit
	case *arrow.Time32Type:
		unit = t.Unit
	}
	return []int64{arrow.Second: 1, arrow.Millisecond: 1e3, arrow.Microsecond: 1e6, arrow.Nanosecond: 1e9}[unit]
}

// oneWidth returns byte strings of equal length as an array of fixed-size binary values.
func oneWidth(values *array.Binary) arrow.Array {
	width := 0
	for i := range values.Len() {
		if n := len(values.Value(i)); values.IsValid(i) {
			if n == 0 || width > 0 && n != width {
				return nil
			}
			width = n
		}
	}
	if width == 0 {
		return nil
	}
	b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: width})
	defer b.Release()
	for i := range values.Len() {
		if values.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(values.Value(i))
		}
	}
	return b.NewArray()
}
