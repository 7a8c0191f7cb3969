package column

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// appendSingle appends a value from Iceberg's metadata (see the specification, "JSON Single-Value
// Serialization"). V is the decoded JSON value, in which numbers are json.Number. If v is not a
// serialization of type t, or the type cannot represent the value exactly, appendSingle returns an
// error: it never rounds or truncates.
func appendSingle(b array.Builder, t iceberg.Type, v any) error {
	switch t := t.(type) {
	case *iceberg.StructType:
		return appendSingleStruct(b.(*array.StructBuilder), t, v) //nolint:forcetypeassert // convertType chose it
	case *iceberg.ListType:
		return appendSingleList(b.(*array.ListBuilder), t, v) //nolint:forcetypeassert // convertType chose it
	case *iceberg.MapType:
		return appendSingleMap(b.(*array.MapBuilder), t, v) //nolint:forcetypeassert // convertType chose it
	}
	switch v := v.(type) {
	case bool:
		if to, ok := b.(*array.BooleanBuilder); ok {
			to.Append(v)
			return nil
		}
	case json.Number:
		return appendNumber(b, t, v.String())
	case string:
		return appendText(b, t, v)
	}
	return noneOf(t, v)
}

// noneOf returns the error for a value that is not a value of its type.
func noneOf(t iceberg.Type, v any) error { return fmt.Errorf("%v is no %s", v, t) }

func appendNumber(b array.Builder, t iceberg.Type, text string) error {
	var err error
	switch b := b.(type) {
	case *array.Int32Builder:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		b.Append(int32(n))
	case *array.Int64Builder:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		b.Append(n)
	case *array.Float32Builder:
		var n float64
		n, err = strconv.ParseFloat(text, 32)
		b.Append(float32(n))
	case *array.Float64Builder:
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		b.Append(n)
	default:
		return noneOf(t, text)
	}
	if err != nil {
		return noneOf(t, text)
	}
	return nil
}

func appendText(b array.Builder, t iceberg.Type, text string) error {
	ok := false
	switch t := t.(type) {
	case iceberg.StringType:
		b.(*array.StringBuilder).Append(text) //nolint:forcetypeassert // convertType chose it
		return nil
	case iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType:
		ok = appendBytes(b, t, text)
	case iceberg.DecimalType:
		var n *big.Int
		if n, ok = unscaled(text, t); ok {
			b.(*array.Decimal128Builder).Append(decimal128.FromBigInt(n)) //nolint:forcetypeassert // convertType chose it
		}
	case iceberg.DateType:
		var days int64
		if days, ok = daysOf(text); ok {
			b.(*array.Date32Builder).Append(arrow.Date32(days)) //nolint:forcetypeassert // convertType chose it
			ok = int64(int32(days)) == days
		}
	case iceberg.TimeType:
		var micros int64
		if micros, ok = clock(text, microsPerSecond); ok {
			b.(*array.Time64Builder).Append(arrow.Time64(micros)) //nolint:forcetypeassert // convertType chose it
		}
	case iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		to := b.(*array.TimestampBuilder) //nolint:forcetypeassert // convertType chose it
		var n int64
		if n, ok = instant(text, to.Type().(*arrow.TimestampType)); ok { //nolint:forcetypeassert // convertType chose it
			to.Append(arrow.Timestamp(n))
		}
	}
	if !ok {
		return noneOf(t, strconv.Quote(text))
	}
	return nil
}

// appendBytes appends bytes, given as hexadecimal digits or as the text of a UUID.
func appendBytes(b array.Builder, t iceberg.Type, text string) bool {
	var value []byte
	var err error
	if _, ok := t.(iceberg.UUIDType); ok {
		var id uuid.UUID
		id, err = uuid.Parse(text)
		value = id[:]
		if len(text) != len(uuid.Nil.String()) {
			return false // a form of UUIDs that only the library accepts
		}
	} else {
		value, err = hex.DecodeString(text)
	}
	if err != nil {
		return false
	}
	switch b := b.(type) {
	case *array.BinaryBuilder:
		b.Append(value)
	case *array.FixedSizeBinaryBuilder:
		if len(value) != b.Type().(*arrow.FixedSizeBinaryType).ByteWidth { //nolint:forcetypeassert // b is a builder of this type
			return false
		}
		b.Append(value)
	}
	return true
}

// appendSingleStruct appends a struct that is inside a list or a map. The JSON object has its
// fields by field id. All fields must be present, because the specification does not say what a
// missing field means.
func appendSingleStruct(b *array.StructBuilder, t *iceberg.StructType, v any) error {
	fields, ok := v.(map[string]any)
	if !ok || len(fields) != len(t.FieldList) {
		return noneOf(t, v)
	}
	b.Append(true)
	for i, f := range t.FieldList {
		field, ok := fields[strconv.Itoa(f.ID)]
		if !ok {
			return noneOf(t, v)
		}
		if err := appendNullable(b.FieldBuilder(i), f.Type, f.Required, field); err != nil {
			return err
		}
	}
	return nil
}

func appendSingleList(b *array.ListBuilder, t *iceberg.ListType, v any) error {
	elements, ok := v.([]any)
	if !ok {
		return noneOf(t, v)
	}
	b.Append(true)
	for _, element := range elements {
		if err := appendNullable(b.ValueBuilder(), t.Element, t.ElementRequired, element); err != nil {
			return err
		}
	}
	return nil
}

func appendSingleMap(b *array.MapBuilder, t *iceberg.MapType, v any) error {
	both, ok := v.(map[string]any)
	keys, keysOK := both["keys"].([]any)
	values, valuesOK := both["values"].([]any)
	if !ok || !keysOK || !valuesOK || len(both) != 2 || len(keys) != len(values) {
		return noneOf(t, v)
	}
	b.Append(true)
	for i := range keys {
		if err := appendNullable(b.KeyBuilder(), t.KeyType, true, keys[i]); err != nil {
			return err
		}
		if err := appendNullable(b.ItemBuilder(), t.ValueType, t.ValueRequired, values[i]); err != nil {
			return err
		}
	}
	return nil
}

func appendNullable(b array.Builder, t iceberg.Type, required bool, v any) error {
	switch {
	case v != nil:
		return appendSingle(b, t, v)
	case required:
		return noneOf(t, "null")
	default:
		b.AppendNull()
		return nil
	}
}

// maxExponent is the largest exponent that a decimal's text may have. It suffices, because a
// decimal has at most 38 digits.
const maxExponent = 100

var decimalForm = regexp.MustCompile(`^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$`)

// unscaled returns the unscaled value of a decimal of a type. It returns false if the
// decimal has more digits than the type.
func unscaled(text string, t iceberg.DecimalType) (*big.Int, bool) {
	parts := decimalForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, false
	}
	exponent := 0
	if parts[4] != "" {
		exponent, _ = strconv.Atoi(parts[4]) // the pattern allows at most three digits
	}
	n, ok := new(big.Int).SetString(parts[1]+parts[2]+parts[3], 10)
	if !ok || exponent > maxExponent || exponent < -maxExponent {
		return nil, false
	}
	ten := big.NewInt(10)
	shift := t.Scale() + exponent - len(parts[3])
	if shift >= 0 {
		n.Mul(n, new(big.Int).Exp(ten, big.NewInt(int64(shift)), nil))
	} else {
		var rest big.Int
		n.QuoRem(n, new(big.Int).Exp(ten, big.NewInt(int64(-shift)), nil), &rest)
		if rest.Sign() != 0 {
			return nil, false
		}
	}
	limit := new(big.Int).Exp(ten, big.NewInt(int64(t.Precision())), nil)
	return n, n.CmpAbs(limit) < 0
}

const (
	secondsPerDay   = 24 * 60 * 60
	microsPerSecond = 1_000_000
	nanosPerSecond  = 1_000_000_000
	fractionDigits  = 9
)

var (
	dateForm  = regexp.MustCompile(`^([+-]?\d{4,7})-(\d\d)-(\d\d)$`)
	clockForm = regexp.MustCompile(`^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$`)
)

// daysOf returns the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar.
func daysOf(text string) (int64, bool) {
	parts := dateForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	year, _ := strconv.Atoi(parts[1])
	month, _ := strconv.Atoi(parts[2])
	day, _ := strconv.Atoi(parts[3])
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if at.Month() != time.Month(month) || at.Day() != day {
		return 0, false // such as February 30
	}
	return at.Unix() / secondsPerDay, true // at is midnight in UTC
}

// clock parses the time of a day, and returns it in units of 1/perSecond seconds.
func clock(text string, perSecond int64) (int64, bool) {
	parts := clockForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	hour, _ := strconv.ParseInt(parts[1], 10, 64)
	minute, _ := strconv.ParseInt(parts[2], 10, 64)
	second, _ := strconv.ParseInt("0"+parts[3], 10, 64)
	nanos, _ := strconv.ParseInt((parts[4] + strings.Repeat("0", fractionDigits))[:fractionDigits], 10, 64)
	finest := nanosPerSecond / perSecond
	if hour > 23 || minute > 59 || second > 59 || nanos%finest != 0 {
		return 0, false
	}
	return (hour*3600+minute*60+second)*perSecond + nanos/finest, true
}

// instant parses a timestamp, and returns it in the unit of its type. If the type has a time zone,
// the text must end with the offset of UTC; otherwise it must have no offset.
func instant(text string, t *arrow.TimestampType) (int64, bool) {
	perSecond := int64(microsPerSecond)
	if t.Unit == arrow.Nanosecond {
		perSecond = nanosPerSecond
	}
	local, offset := text, ""
	for _, zero := range []string{"+00:00", "Z"} {
		if rest, ok := strings.CutSuffix(text, zero); ok {
			local, offset = rest, zero
		}
	}
	date, at, ok := strings.Cut(local, "T")
	if !ok || (offset != "") != (t.TimeZone != "") {
		return 0, false
	}
	days, ok := daysOf(date)
	since, alsoOK := clock(at, perSecond)
	if !ok || !alsoOK {
		return 0, false
	}
	n := new(big.Int).Mul(big.NewInt(days), big.NewInt(secondsPerDay*perSecond))
	n.Add(n, big.NewInt(since))
	return n.Int64(), n.IsInt64()
}
