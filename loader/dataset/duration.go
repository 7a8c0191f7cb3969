package dataset

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// unit is a unit of time. Calendar months have no fixed length.
type unit struct {
	word   string
	length time.Duration // 0: the unit has months
	months int
}

const day = 24 * time.Hour

// units returns the units of durations, longest first.
func units() []unit {
	return []unit{
		{word: "y", months: 12},
		{word: "mo", months: 1},
		{word: "w", length: 7 * day},
		{word: "d", length: day},
		{word: "h", length: time.Hour},
		{word: "m", length: time.Minute},
		{word: "s", length: time.Second},
		{word: "ms", length: time.Millisecond},
		{word: "us", length: time.Microsecond},
		{word: "ns", length: time.Nanosecond},
	}
}

// maxMonths is the largest lag in months: ten thousand years.
const maxMonths = 120_000

// DurationForm describes the syntax of durations in messages.
const DurationForm = `a whole number and a unit (w, d, h, m, s), such as "24h" or "1d"`

// ParseLag parses a whole number and a unit, such as "36h" or "2mo". The error is Invalid
// and names no field.
func ParseLag(text string) (Lag, error) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	word := strings.TrimPrefix(text[digits:], " ")
	for _, u := range units() {
		if u.word != word || digits == 0 {
			continue
		}
		count, err := strconv.ParseInt(text[:digits], 10, 64)
		if err != nil || u.length == 0 && count > int64(maxMonths/u.months) || u.length > 0 && count > math.MaxInt64/int64(u.length) {
			return Lag{}, fault.New(fault.Invalid, "%q is too long", fault.Shorten(text, 40))
		}
		return Lag{Months: int(count) * u.months, Time: time.Duration(count) * u.length}, nil
	}
	return Lag{}, fault.New(fault.Invalid, "%q is not a duration; write %s", fault.Shorten(text, 40), DurationForm)
}

// durationText formats a length in the longest unit that divides it, except weeks.
func durationText(length time.Duration) string {
	for _, u := range units() {
		if u.length > 0 && u.word != "w" && length%u.length == 0 {
			return strconv.FormatInt(int64(length/u.length), 10) + u.word
		}
	}
	return ""
}

// String returns the lag as a text: "1d", "2mo", a plain number for integer partitions, or "" for
// no lag.
func (l Lag) String() string {
	switch {
	case l.Months != 0 && l.Months%12 == 0:
		return strconv.Itoa(l.Months/12) + "y"
	case l.Months != 0:
		return strconv.Itoa(l.Months) + "mo"
	case l.Time != 0:
		return durationText(l.Time)
	case l.Count != 0:
		return strconv.FormatInt(l.Count, 10)
	default:
		return ""
	}
}
