package operator

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// fromText returns a preparation for rows that are parsed.
func fromText[T any](parse func(string) (T, verdict)) func(arrow.Array) func(int) (T, verdict) {
	return func(a arrow.Array) func(int) (T, verdict) {
		texts := a.(*array.String)
		return func(row int) (T, verdict) { return parse(texts.Value(row)) }
	}
}

// trimmed returns a text without spaces around it. It returns false if other white space or control
// characters are left around it, which only one of the engines may remove.
func trimmed(s string) (string, bool) {
	s = strings.Trim(s, " ")
	odd := func(b byte) bool { return b < ' ' || b == 0x7f }
	return s, s == "" || !odd(s[0]) && !odd(s[len(s)-1])
}

// textToNumber returns the conversion of texts: an integer is a sign and digits, a float has a
// fraction and an exponent as well.
func textToNumber[T number](to arrow.DataType) *conversion {
	bits := to.(arrow.FixedWidthDataType).BitWidth()
	if isInteger(to) {
		return fixed(to, fromText(func(s string) (T, verdict) { v, found := parseInteger(s, bits); return T(v), found }))
	}
	return fixed(to, fromText(func(s string) (T, verdict) { v, found := parseFloat(s, bits); return T(v), found }))
}

// The texts of numbers that at least one of the engines accepts.
var (
	looseInteger = regexp.MustCompile(`^[+-]?(0[xXbBoO][0-9a-fA-F_]+|[0-9_]*\.?[0-9_]*([eE][+-]?[0-9_]+)?[lLsSdDfF]?)$`)
	looseFloat   = regexp.MustCompile(`^[+-]?(0[xX][0-9a-fA-F_.pP+-]+|(nan|inf|infinity|[0-9_]*\.?[0-9_]*([eE][+-]?[0-9_]+)?)[dDfF]?)$`)
)

func parseInteger(s string, bits int) (int64, verdict) {
	s, plain := trimmed(s)
	if !plain {
		return 0, disputed
	}
	unsigned := strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	if len(s)-len(unsigned) <= 1 && unsigned != "" && strings.Trim(unsigned, "0123456789") == "" {
		v, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			return 0, unfit
		}
		return v, fits
	}
	if strings.ContainsAny(s, "0123456789") && looseInteger.MatchString(s) {
		return 0, disputed
	}
	return 0, unfit
}

// isNumeral reports whether a text is a sign, digits, a fraction and an exponent, of which only
// digits are necessary.
func isNumeral(s string) bool {
	digits := func() bool {
		rest := strings.TrimLeft(s, "0123456789")
		some := len(rest) < len(s)
		s = rest
		return some
	}
	sign := func() {
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
	}
	sign()
	some := digits()
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		some = digits() || some
	}
	if some && s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		sign()
		some = digits()
	}
	return some && s == ""
}

func parseFloat(s string, bits int) (float64, verdict) {
	s, plain := trimmed(s)
	if !plain {
		return 0, disputed
	}
	word := strings.ToLower(s)
	switch strings.TrimPrefix(strings.TrimPrefix(word, "+"), "-") {
	case "inf", "infinity", "nan":
		if word == "+nan" || word == "-nan" || strings.HasPrefix(word, "+-") {
			return 0, disputed
		}
		v, _ := strconv.ParseFloat(s, bits)
		return v, fits
	}
	if isNumeral(s) {
		v, _ := strconv.ParseFloat(s, bits) // beyond the largest float, the value is an infinity
		return v, fits
	}
	if looseFloat.MatchString(word) && strings.ContainsAny(s, "0123456789nN") {
		return 0, disputed
	}
	return 0, unfit
}

func parseBoolean(s string) (bool, verdict) {
	word := strings.ToLower(strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }))
	value := false
	switch word {
	case "true", "t", "yes", "y", "1":
		value = true
	case "false", "f", "no", "n", "0":
	default:
		return false, unfit
	}
	if len(word) != len(s) {
		return false, disputed
	}
	return value, fits
}

// written is the longest text of each type that can be cast to text, in bytes.
func written(from arrow.DataType) int {
	switch t := from.(type) {
	case *arrow.BooleanType:
		return len("false")
	case *arrow.Int32Type:
		return len("-2147483648")
	case *arrow.Int64Type:
		return len("-9223372036854775808")
	case *arrow.Date32Type:
		return len(time.DateOnly)
	case *arrow.Decimal128Type:
		return maxPrecision + len("-0.")
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond && t.TimeZone == "" {
			return len("2026-10-01 12:00:00.000000")
		}
	}
	return 0
}

// toText returns the conversion to texts. Floats have none, since the engines write them differently.
func toText(from arrow.DataType) *conversion {
	width := written(from)
	if width == 0 {
		return nil
	}
	convert := func(c *casting) []*memory.Buffer {
		offsets, texts := c.buffer((c.Count+1)*arrow.Int32SizeBytes), c.buffer(c.Count*width)
		ends, out, one := arrow.GetData[int32](offsets.Bytes()), texts.Bytes()[:0], appender(c.from)
		ends[0] = 0
		c.check(0, c.Count, func(row int) (found verdict) {
			if valid(c.validity, row) {
				out, found = one(out, row)
			}
			ends[row+1] = int32(len(out))
			return found
		})
		texts.ResizeNoShrink(len(out))
		return []*memory.Buffer{offsets, texts}
	}
	size := func(_ []int64, rows int) int64 {
		return bufferSize(int64((rows+1)*arrow.Int32SizeBytes)) + bufferSize(int64(rows)*int64(width)) + bufferSize(int64(rows+7)/8)
	}
	return &conversion{convert: convert, size: size}
}

// appender returns a function that appends the text of a row's value.
func appender(a arrow.Array) func(to []byte, row int) ([]byte, verdict) {
	switch a := a.(type) {
	case *array.Boolean:
		return func(to []byte, row int) ([]byte, verdict) { return strconv.AppendBool(to, a.Value(row)), fits }
	case *array.Int32:
		return func(to []byte, row int) ([]byte, verdict) {
			return strconv.AppendInt(to, int64(a.Value(row)), 10), fits
		}
	case *array.Int64:
		return func(to []byte, row int) ([]byte, verdict) { return strconv.AppendInt(to, a.Value(row), 10), fits }
	case *array.Date32:
		return func(to []byte, row int) ([]byte, verdict) {
			return appendTime(to, int64(a.Value(row))*microsPerDay, time.DateOnly)
		}
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(to []byte, row int) ([]byte, verdict) { return append(to, a.Value(row).ToString(scale)...), fits }
	default:
		values := arrow.GetValues[arrow.Timestamp](a.Data(), 1)
		return func(to []byte, row int) ([]byte, verdict) {
			return appendTime(to, int64(values[row]), "2006-01-02 15:04:05.999999")
		}
	}
}

// appendTime appends a time, in microseconds. Only the years 1 to 9999 have the same text in all
// engines.
func appendTime(to []byte, micros int64, layout string) ([]byte, verdict) {
	if micros < minMicros || micros > maxMicros {
		return to, disputed
	}
	return time.UnixMicro(micros).UTC().AppendFormat(to, layout), fits
}

// decimalFloat returns the float that is nearest to a decimal.
func decimalFloat(v decimal128.Num, scale int32, to arrow.DataType) float64 {
	f, _ := strconv.ParseFloat(v.ToString(scale), to.(arrow.FixedWidthDataType).BitWidth())
	return f
}
