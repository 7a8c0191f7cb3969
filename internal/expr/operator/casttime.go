package operator

import (
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

const (
	microsPerDay = 24 * 60 * 60 * 1_000_000
	// The years 1 to 9999.
	minDay    = -719162
	maxDay    = 2932896
	minMicros = minDay * microsPerDay
	maxMicros = (maxDay+1)*microsPerDay - 1
)

// toDate returns the conversion to dates: the day of a timestamp, in UTC.
func toDate(from arrow.DataType) *conversion {
	to := arrow.FixedWidthTypes.Date32
	switch t := from.(type) {
	case *arrow.StringType:
		return fixed(to, fromText(parseDate))
	case *arrow.TimestampType:
		perDay := int64(24 * time.Hour / t.Unit.Multiplier())
		return fixed(to, func(a arrow.Array) func(int) (arrow.Date32, verdict) {
			values := arrow.GetValues[arrow.Timestamp](a.Data(), 1)
			return func(row int) (arrow.Date32, verdict) { return arrow.Date32(floorDiv(int64(values[row]), perDay)), fits }
		})
	default:
		return nil
	}
}

// floorDiv divides by a positive number and rounds down.
func floorDiv(v, by int64) int64 {
	q := v / by
	if v%by < 0 {
		q--
	}
	return q
}

// toTimestamp returns the conversion to timestamps: midnight of a date. Timestamps with a time zone
// and those without are converted to each other in UTC.
func toTimestamp(from arrow.DataType, to *arrow.TimestampType) *conversion {
	switch t := from.(type) {
	case *arrow.StringType:
		return fixed(to, fromText(func(s string) (arrow.Timestamp, verdict) { return parseTimestamp(s, to.TimeZone != "") }))
	case *arrow.Date32Type:
		return fixed(to, func(a arrow.Array) func(int) (arrow.Timestamp, verdict) {
			values := arrow.GetValues[arrow.Date32](a.Data(), 1)
			return func(row int) (arrow.Timestamp, verdict) {
				micros := int64(values[row]) * microsPerDay
				if micros < minMicros || micros > maxMicros {
					return 0, disputed
				}
				return arrow.Timestamp(micros), fits
			}
		})
	case *arrow.TimestampType:
		if t.Unit != to.Unit {
			return nil
		}
		return fixed(to, func(a arrow.Array) func(int) (arrow.Timestamp, verdict) {
			values := arrow.GetValues[arrow.Timestamp](a.Data(), 1)
			return func(row int) (arrow.Timestamp, verdict) { return values[row], fits }
		})
	default:
		return nil
	}
}

// parseDate parses YYYY-MM-DD.
func parseDate(s string) (arrow.Date32, verdict) {
	t, found := parseLayout(s, time.DateOnly)
	return arrow.Date32(floorDiv(t.Unix(), 24*60*60)), found
}

// parseTimestamp parses a date with a time, or without one, and with an offset if the type has a
// time zone.
func parseTimestamp(s string, zoned bool) (arrow.Timestamp, verdict) {
	layouts := []string{time.DateOnly, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999"}
	if zoned {
		layouts = append(layouts, "2006-01-02 15:04:05.999999Z07:00", "2006-01-02T15:04:05.999999Z07:00")
	}
	if dot := strings.LastIndexByte(s, '.'); dot >= 0 && len(s)-dot > len(".000000+00:00") {
		return 0, disputed
	}
	t, found := parseLayout(s, layouts...)
	return arrow.Timestamp(t.UnixMicro()), found
}

// parseLayout parses a text in the first layout that it has.
func parseLayout(s string, layouts ...string) (time.Time, verdict) {
	s, plain := trimmed(s)
	if !plain {
		return time.Time{}, disputed
	}
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, s)
	for _, layout := range layouts {
		t, err := time.Parse(layout, s)
		if err == nil && t.Year() >= 1 && !strings.Contains(s, ",") {
			return t.UTC(), fits
		}
	}
	switch {
	case digits == "0000-00-00":
		return time.Time{}, unfit // no day of the calendar
	case s == "" || !strings.ContainsAny(s[:1], "+-0123456789") && !isDateWord(s):
		return time.Time{}, unfit
	default:
		return time.Time{}, disputed
	}
}

// isDateWord reports whether an engine reads a word as a date.
func isDateWord(s string) bool {
	switch strings.ToLower(s) {
	case "epoch", "inf", "infinity", "now", "today", "yesterday", "tomorrow":
		return true
	default:
		return strings.HasPrefix(s, "T") // the time of a day
	}
}

// toDecimal returns the conversion to decimals. Digits beyond the scale are rounded half up.
func toDecimal(from arrow.DataType, to *arrow.Decimal128Type) *conversion {
	switch t := from.(type) {
	case *arrow.Int32Type:
		return integerToDecimal[int32](to)
	case *arrow.Int64Type:
		return integerToDecimal[int64](to)
	case *arrow.Decimal128Type:
		return fixed(to, func(a arrow.Array) func(int) (decimal128.Num, verdict) {
			values := arrow.GetValues[decimal128.Num](a.Data(), 1)
			return func(row int) (decimal128.Num, verdict) { return rescale(values[row], t.Scale, to) }
		})
	default:
		return nil
	}
}

func integerToDecimal[T int32 | int64](to *arrow.Decimal128Type) *conversion {
	return fixed(to, func(a arrow.Array) func(int) (decimal128.Num, verdict) {
		values := arrow.GetValues[T](a.Data(), 1)
		return func(row int) (decimal128.Num, verdict) {
			return rescale(decimal128.FromI64(int64(values[row])), 0, to)
		}
	})
}
