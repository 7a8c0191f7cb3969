package expr

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
)

// family is a group of types whose values compare in the same way.
type family int

const (
	opaque    family = iota // dictionaries, unions and others without a validity bitmap: not supported
	nested                  // lists, structs, maps and others without an order: null tests only
	integers                // int32, int64
	floats                  // float32, float64
	decimals                // decimal128
	booleans                // bool
	texts                   // utf8, large_utf8
	binaries                // binary, large_binary, fixed_size_binary
	dates                   // date32
	times                   // time64
	timestamp               // timestamp[us], timestamp[ns]
)

// columnType has the properties of an Arrow type that matter to filters. The columns of
// batches must have the columnType that was bound, so utf8 and large_utf8 are
// interchangeable.
type columnType struct {
	family family
	bits   int           // for integers and floats: 32 or 64
	scale  int           // for decimals
	unit   time.Duration // for times and timestamps
	zoned  bool          // for timestamps: whether they have a time zone
	uuid   bool          // for binaries: whether all values have 16 bytes, so that text in the form of a UUID is accepted
}

// columnTypeOf returns the columnType of an Arrow type.
func columnTypeOf(dt arrow.DataType) columnType {
	switch t := dt.(type) {
	case *arrow.Int32Type:
		return columnType{family: integers, bits: 32}
	case *arrow.Int64Type:
		return columnType{family: integers, bits: 64}
	case *arrow.Float32Type:
		return columnType{family: floats, bits: 32}
	case *arrow.Float64Type:
		return columnType{family: floats, bits: 64}
	case *arrow.Decimal128Type:
		return columnType{family: decimals, scale: int(t.Scale)}
	case *arrow.BooleanType:
		return columnType{family: booleans}
	case *arrow.StringType, *arrow.LargeStringType:
		return columnType{family: texts}
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return columnType{family: binaries}
	case *arrow.FixedSizeBinaryType:
		return columnType{family: binaries, uuid: t.ByteWidth == len(uuid.UUID{})}
	case *arrow.Date32Type:
		return columnType{family: dates}
	case *arrow.Time64Type:
		return columnType{family: times, unit: t.Unit.Multiplier()}
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond || t.Unit == arrow.Nanosecond {
			return columnType{family: timestamp, unit: t.Unit.Multiplier(), zoned: t.TimeZone != ""}
		}
	case *arrow.DictionaryType, *arrow.RunEndEncodedType, arrow.UnionType, arrow.ExtensionType:
		return columnType{family: opaque}
	}
	return columnType{family: nested}
}

// discrete reports whether the type's values are whole numbers of some unit.
func (s columnType) discrete() bool {
	switch s.family {
	case integers, decimals, dates, times, timestamp:
		return true
	case opaque, nested, floats, booleans, texts, binaries:
	}
	return false
}

// limits returns the minimum and maximum of a discrete type, in its units.
func (s columnType) limits() (minValue, maxValue *big.Int) {
	switch {
	case s.family == decimals:
		maxValue = new(big.Int).Lsh(big.NewInt(1), 127)
		maxValue.Sub(maxValue, big.NewInt(1))
		return new(big.Int).Neg(maxValue), maxValue
	case s.family == dates || s.bits == 32:
		return big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32)
	default:
		return big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	}
}

// cost returns the cost of comparing values. Conditions with a lower cost are evaluated first.
func (s columnType) cost() int {
	switch s.family {
	case texts, binaries:
		return 3
	case decimals:
		return 2
	case opaque, nested, integers, floats, booleans, dates, times, timestamp:
	}
	return 1
}

// accepts describes the literals that a column of this type compares with.
func (s columnType) accepts() string {
	switch s.family {
	case integers, floats, decimals:
		return "a number without quotes"
	case booleans:
		return "TRUE or FALSE"
	case texts:
		return "a string in single quotes"
	case binaries:
		if s.uuid {
			return "X'…', or a UUID in single quotes"
		}
		return "X'…'"
	case dates:
		return "DATE '2026-10-01'"
	case times:
		return "TIME '12:30:00'"
	case timestamp:
		if s.zoned {
			return "TIMESTAMP '2026-10-01 12:00:00+00:00'"
		}
		return "TIMESTAMP '2026-10-01 12:00:00'"
	case opaque, nested:
	}
	return "only IS NULL or IS NOT NULL"
}

// convert converts a literal to the column's type: for discrete types it sets the number in the
// column's units. Dates and times accept a text literal in ISO form, binaries of 16 bytes one in
// UUID form. The text of an error is the end of a message that begins with the column's name and
// type.
func (s columnType) convert(l literal) (literal, error) {
	if l.kind == textLiteral && (s.family == dates || s.family == times || s.family == timestamp || s.uuid) {
		var err error
		if l, err = s.readText(l); err != nil {
			return l, err
		}
	}
	ok := false
	switch s.family {
	case integers, decimals, floats:
		ok = l.kind == numberLiteral
	case booleans:
		ok = l.kind == booleanLiteral
	case texts:
		ok = l.kind == textLiteral
	case binaries:
		ok = l.kind == binaryLiteral
	case dates:
		ok = l.kind == dateLiteral
		l.number = newNumber(big.NewInt(l.instant.days), 0)
	case times:
		ok = l.kind == timeLiteral
		l.number = l.instant.units(int64(s.unit))
	case timestamp:
		ok = l.kind == timestampLiteral || l.kind == dateLiteral
		if ok && l.instant.zoned && !s.zoned {
			return l, errors.New("has no time zone, but the literal has an offset: leave the offset out")
		}
		l.number = l.instant.units(int64(s.unit))
	case opaque, nested: // nothing compares with these
	}
	if !ok {
		return l, fmt.Errorf("cannot be compared with %s: write %s", l.kind, s.accepts())
	}
	return l, nil
}

// readText parses a text literal as a date, time, timestamp or UUID.
func (s columnType) readText(l literal) (literal, error) {
	var err error
	switch s.family {
	case binaries:
		l.kind = binaryLiteral
		l.text, err = parseUUID(l.text)
	case dates:
		l.kind = dateLiteral
		l.instant, err = parseDate(l.text)
	case times:
		l.kind = timeLiteral
		l.instant, err = parseTime(l.text)
	case opaque, nested, integers, floats, decimals, booleans, texts, timestamp:
		l.kind = timestampLiteral
		l.instant, err = parseTimestamp(l.text)
	}
	if err != nil {
		return l, fmt.Errorf("cannot be compared with the literal: %w", err)
	}
	return l, nil
}

// parseUUID parses the 36 characters of a UUID.
func parseUUID(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != len(id.String()) {
		return "", fmt.Errorf("'%s' is not a UUID such as '9e3a…-…'", shorten(s))
	}
	return string(id[:]), nil
}

// literalText renders a bound constant so that binding it again yields the same
// constant.
func (s columnType) literalText(v Value) string {
	switch s.family {
	case dates:
		return "DATE '" + instant{days: v.integer}.date() + "'"
	case times:
		return "TIME '" + instantOf(v.integer, int64(s.unit), false).clock() + "'"
	case timestamp:
		return "TIMESTAMP '" + instantOf(v.integer, int64(s.unit), s.zoned).timestamp() + "'"
	case integers:
		return newNumber(big.NewInt(v.integer), 0).text()
	case decimals:
		return number{v.unscaled, v.scale}.text()
	case floats:
		return floatText(v.float, s.bits)
	case binaries:
		return quoteBinary(v.text)
	case opaque, nested, booleans, texts:
	}
	return quoteText(v.text)
}
