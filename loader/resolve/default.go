package resolve

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// defaultsOf returns an entry's defaults by output name.
func (b *binder) defaultsOf(s *Staging, at string) map[string]any {
	if !s.Missing.Defaults() {
		return nil
	}
	defaults := make(map[string]any, len(s.Defaults))
	for _, d := range s.Defaults {
		if _, twice := defaults[d.Column]; twice {
			b.fault(at+".missing.default", "", "column %q has two defaults", d.Column)
		}
		defaults[d.Column] = d.Value
	}
	return defaults
}

// setDefault converts the dataset's default to the column's current type. If that is impossible, it
// returns faults.
func (o *Output) setDefault(at string) []fault.Field {
	o.Default = nil
	if o.missing == nil {
		return nil
	}
	builder := array.NewBuilder(memory.DefaultAllocator, o.Type())
	defer builder.Release()
	if err := appendValue(builder, o.Type(), o.missing); err != nil {
		return []fault.Field{{Field: at, Message: fmt.Sprintf("the default %v is not a value of column %q of type %s: %v", o.missing, o.Name, o.Type(), err)}}
	}
	o.Default = builder.NewArray()
	return nil
}

// appendValue appends a value that is given in the dataset's notation.
func appendValue(builder array.Builder, t arrow.DataType, value any) error {
	switch v := value.(type) {
	case bool:
		if b, ok := builder.(*array.BooleanBuilder); ok {
			b.Append(v)
			return nil
		}
	case int64:
		return appendInteger(builder, t, v)
	case float64:
		return appendFloat(builder, v)
	case string:
		return appendText(builder, t, v)
	}
	return fmt.Errorf("a %s is expected", expected(t))
}

func appendInteger(builder array.Builder, t arrow.DataType, v int64) error {
	switch b := builder.(type) {
	case *array.Int32Builder:
		if v < math.MinInt32 || v > math.MaxInt32 {
			return errors.New("it does not fit into 32 bits")
		}
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	case *array.Float32Builder, *array.Float64Builder:
		if int64(float64(v)) != v || v == math.MaxInt64 {
			return errors.New("it is not exact as a floating-point number")
		}
		return appendFloat(builder, float64(v))
	case *array.Decimal128Builder:
		return appendText(builder, t, strconv.FormatInt(v, 10))
	default:
		return fmt.Errorf("a %s is expected", expected(t))
	}
	return nil
}

func appendFloat(builder array.Builder, v float64) error {
	switch b := builder.(type) {
	case *array.Float32Builder:
		if math.Abs(v) > math.MaxFloat32 && !math.IsInf(v, 0) {
			return errors.New("it does not fit into a float")
		}
		b.Append(float32(v))
	case *array.Float64Builder:
		b.Append(v)
	default:
		return fmt.Errorf("a %s is expected", expected(builder.Type()))
	}
	return nil
}

func appendText(builder array.Builder, t arrow.DataType, v string) error {
	switch b := builder.(type) {
	case *array.StringBuilder:
		b.Append(v)
	case *array.Decimal128Builder:
		d := t.(*arrow.Decimal128Type)
		if _, digits, _ := strings.Cut(v, "."); len(digits) > int(d.Scale) {
			return fmt.Errorf("it has more than %d digits after the point", d.Scale)
		}
		n, err := decimal128.FromString(v, d.Precision, d.Scale)
		if err != nil {
			return err
		}
		b.Append(n)
	case *array.Date32Builder:
		day, err := time.Parse(time.DateOnly, v)
		if err != nil {
			return errors.New("write it as 2026-10-01")
		}
		b.Append(arrow.Date32FromTime(day))
	case *array.Time64Builder:
		at, err := arrow.Time64FromString(v, b.Type().(*arrow.Time64Type).Unit)
		if err != nil {
			return errors.New("write it as 12:30:00")
		}
		b.Append(at)
	case *array.TimestampBuilder:
		return appendTimestamp(b, v)
	case *array.BinaryBuilder, *array.FixedSizeBinaryBuilder:
		return appendBytes(builder, v)
	default:
		return fmt.Errorf("a %s is expected", expected(t))
	}
	return nil
}

// appendTimestamp accepts an offset if and only if the column has a zone.
func appendTimestamp(b *array.TimestampBuilder, v string) error {
	t := b.Type().(*arrow.TimestampType)
	at, zoned, err := arrow.TimestampFromStringInLocation(v, t.Unit, time.UTC)
	switch {
	case err != nil:
		return errors.New("write it as 2026-10-01T12:00:00")
	case zoned && t.TimeZone == "":
		return errors.New("the column has no time zone: leave the offset out")
	case !zoned && t.TimeZone != "":
		return errors.New("the column has a time zone: write an offset, as in 2026-10-01T12:00:00Z")
	}
	b.Append(at)
	return nil
}

// appendBytes accepts hexadecimal digits, and a UUID for 16 bytes.
func appendBytes(builder array.Builder, v string) error {
	bytes, err := hex.DecodeString(v)
	if id, failed := uuid.Parse(v); failed == nil {
		bytes, err = id[:], nil
	}
	if err != nil {
		return errors.New("write it in hexadecimal digits")
	}
	switch b := builder.(type) {
	case *array.BinaryBuilder:
		b.Append(bytes)
	case *array.FixedSizeBinaryBuilder:
		if width := b.Type().(*arrow.FixedSizeBinaryType).ByteWidth; len(bytes) != width {
			return fmt.Errorf("it has %d bytes, not %d", len(bytes), width)
		}
		b.Append(bytes)
	}
	return nil
}

// expected describes the notation of a default of a type.
func expected(t arrow.DataType) string {
	switch t.ID() {
	case arrow.BOOL:
		return "boolean"
	case arrow.INT32, arrow.INT64:
		return "whole number"
	case arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		return "number"
	case arrow.LIST, arrow.MAP, arrow.STRUCT:
		return "null, the only default of nested columns,"
	default:
		return "string"
	}
}
