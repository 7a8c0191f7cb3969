package stats

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// Value is a value of a column: a number, or a text.
type Value struct {
	text string
	form valueForm
}

type valueForm int

const (
	textForm    valueForm = iota
	integerForm           // a JSON number, whose digits all matter
	floatForm             // a JSON number
)

// maxShown is the maximum number of characters of a text that is shown.
const maxShown = 64

// String returns the value as text.
func (v Value) String() string { return v.text }

// Short returns the value as text for people, with at most five digits of floats.
func (v Value) Short() string {
	if v.form != floatForm {
		return v.text
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil {
		return v.text
	}
	return strconv.FormatFloat(x, 'g', shortDigits, 64)
}

const shortDigits = 5

// MarshalJSON implements json.Marshaler. NaN and infinite numbers are texts. A float has a point or an exponent, so that
// UnmarshalJSON distinguishes it from an integer.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.form == textForm:
		return json.Marshal(v.text)
	case v.form == floatForm && !strings.ContainsAny(v.text, ".e"):
		return []byte(v.text + wholeFloat), nil
	default:
		return []byte(v.text), nil
	}
}

// wholeFloat follows the digits of a whole float in JSON.
const wholeFloat = ".0"

// UnmarshalJSON implements json.Unmarshaler. It returns the value that MarshalJSON wrote.
func (v *Value) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte(`"`)) {
		var number json.Number
		if err := json.Unmarshal(text, &number); err != nil {
			return fault.New(fault.Corrupt, "a value is neither a number nor a text: %w", err)
		}
		*v = Value{text: string(number), form: integerForm}
		if strings.ContainsAny(v.text, ".e") {
			*v = Value{text: strings.TrimSuffix(v.text, wholeFloat), form: floatForm}
		}
		return nil
	}
	*v = Value{}
	return json.Unmarshal(text, &v.text)
}

// integerValue returns a value of a column of integers, booleans, dates or times.
func integerValue(t arrow.DataType, v int64) Value {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return Value{text: strconv.FormatBool(v != 0)}
	case *arrow.Date32Type:
		return Value{text: arrow.Date32(v).ToTime().Format(time.DateOnly)} //nolint:gosec // it was a Date32
	case *arrow.Time64Type:
		return Value{text: arrow.Time64(v).FormattedString(t.Unit)}
	case *arrow.TimestampType:
		at := arrow.Timestamp(v).ToTime(t.Unit)
		if t.TimeZone == "" {
			return Value{text: at.Format("2006-01-02T15:04:05.999999999")}
		}
		return Value{text: at.Format(time.RFC3339Nano)}
	default:
		return Value{text: strconv.FormatInt(v, 10), form: integerForm}
	}
}

// finite returns a number, or nil if it is NaN or infinite.
func finite(v float64) *Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return new(floatValue(v))
}

// floatValue returns a number. It returns 0 for -0, which is equal to it.
func floatValue(v float64) Value {
	if v == 0 {
		v = 0
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Value{text: strconv.FormatFloat(v, 'g', -1, 64)}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return Value{text: err.Error()}
	}
	return Value{text: string(text), form: floatForm}
}

// bytesValue returns a text, or other bytes as base64. UUIDs have their usual form. Long values are cut.
func bytesValue(t arrow.DataType, v []byte) Value {
	switch {
	case t.ID() == arrow.STRING && utf8.Valid(v):
		return Value{text: fault.Shorten(string(v), maxShown)}
	case t.ID() == arrow.FIXED_SIZE_BINARY && len(v) == len(uuid.UUID{}):
		return Value{text: uuid.UUID(v).String()}
	default:
		return Value{text: fault.Shorten(base64.StdEncoding.EncodeToString(v), maxShown)}
	}
}
