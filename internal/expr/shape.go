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

// family says how a column's values compare.
type family int

const (
	opaque    family = iota // dictionaries, unions and the like, whose nulls are not in a bitmap: not served
	nested                  // lists, structs, maps and what else has no order here: null tests alone
	integers                // int32, int64
	floats                  // float32, float64
	decimals                // decimal128
	truths                  // bool
	texts                   // utf8, large_utf8
	binaries                // binary, large_binary, fixed_size_binary
	dates                   // date32
	times                   // time64
	timestamp               // timestamp[us], timestamp[ns]
)

// shape is what filters need to know of an Arrow type. Batches must have the
// shape that was bound; so utf8 and large_utf8 may stand for each other.
type shape struct {
	family family
	bits   int           // of integers and floats: 32, 64
	scale  int           // of decimals
	unit   time.Duration // of times and timestamps
	zoned  bool          // of timestamps
	uuid   bool          // of binaries: of 16 bytes each, so text in UUID form is read
}

// shapeOf returns the shape of a type.
func shapeOf(dt arrow.DataType) shape {
	switch t := dt.(type) {
	case *arrow.Int32Type:
		return shape{family: integers, bits: 32}
	case *arrow.Int64Type:
		return shape{family: integers, bits: 64}
	case *arrow.Float32Type:
		return shape{family: floats, bits: 32}
	case *arrow.Float64Type:
		return shape{family: floats, bits: 64}
	case *arrow.Decimal128Type:
		return shape{family: decimals, scale: int(t.Scale)}
	case *arrow.BooleanType:
		return shape{family: truths}
	case *arrow.StringType, *arrow.LargeStringType:
		return shape{family: texts}
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return shape{family: binaries}
	case *arrow.FixedSizeBinaryType:
		return shape{family: binaries, uuid: t.ByteWidth == len(uuid.UUID{})}
	case *arrow.Date32Type:
		return shape{family: dates}
	case *arrow.Time64Type:
		return shape{family: times, unit: t.Unit.Multiplier()}
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond || t.Unit == arrow.Nanosecond {
			return shape{family: timestamp, unit: t.Unit.Multiplier(), zoned: t.TimeZone != ""}
		}
	case *arrow.DictionaryType, *arrow.RunEndEncodedType, arrow.UnionType, arrow.ExtensionType:
		return shape{family: opaque}
	}
	return shape{family: nested}
}

// discrete reports whether the values are whole numbers of a smallest unit.
func (s shape) discrete() bool {
	switch s.family {
	case integers, decimals, dates, times, timestamp:
		return true
	case opaque, nested, floats, truths, texts, binaries:
	}
	return false
}

// limits returns the least and the greatest value of a discrete shape, in
// its units.
func (s shape) limits() (least, greatest *big.Int) {
	switch {
	case s.family == decimals:
		greatest = new(big.Int).Lsh(big.NewInt(1), 127)
		greatest.Sub(greatest, big.NewInt(1))
		return new(big.Int).Neg(greatest), greatest
	case s.family == dates || s.bits == 32:
		return big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32)
	default:
		return big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	}
}

// cost orders conditions: the cheap ones are evaluated first.
func (s shape) cost() int {
	switch s.family {
	case texts, binaries:
		return 3
	case decimals:
		return 2
	case opaque, nested, integers, floats, truths, dates, times, timestamp:
	}
	return 1
}

// accepts names the literals that a column of this shape compares with.
func (s shape) accepts() string {
	switch s.family {
	case integers, floats, decimals:
		return "a number without quotes"
	case truths:
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
	return "IS NULL or IS NOT NULL alone"
}

// convert turns a literal into the column's terms: a number in units of
// 10^-scale for discrete shapes, else the literal itself. A text literal in
// ISO form serves dates and times, one in UUID form binaries of 16 bytes. The
// error says what is wrong in words that follow the column's name and type.
func (s shape) convert(l literal) (literal, error) {
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
	case truths:
		ok = l.kind == truthLiteral
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
			return l, errors.New("has no time zone, but the literal has an offset: leave the offset away")
		}
		l.number = l.instant.units(int64(s.unit))
	case opaque, nested: // nothing compares with these
	}
	if !ok {
		return l, fmt.Errorf("does not compare with %s: write %s", l.kind, s.accepts())
	}
	return l, nil
}

// readText reads a string that stands for a date, time, timestamp or UUID.
func (s shape) readText(l literal) (literal, error) {
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
	case opaque, nested, integers, floats, decimals, truths, texts, timestamp:
		l.kind = timestampLiteral
		l.instant, err = parseTimestamp(l.text)
	}
	if err != nil {
		return l, fmt.Errorf("does not compare with the literal: %w", err)
	}
	return l, nil
}

// parseUUID reads the 36 characters of a UUID.
func parseUUID(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != len(id.String()) {
		return "", fmt.Errorf("'%s' is not a UUID such as '9e3a…-…'", shorten(s))
	}
	return string(id[:]), nil
}

// literalText renders a bound constant so that binding it again gives the
// same constant.
func (s shape) literalText(v Value) string {
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
	case opaque, nested, truths, texts:
	}
	return quoteText(v.text)
}
