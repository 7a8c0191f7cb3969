package dataset

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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

// durationForm describes the syntax of durations in messages.
const durationForm = `a whole number and a unit (w, d, h, m, s), such as "24h" or "1d"`

// readDuration parses a whole number and a unit, such as "36h". The message is empty if
// the text is valid.
func readDuration(text string) (months int, length time.Duration, message string) {
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
			return 0, 0, fmt.Sprintf("%q is too long", shorten(text, 40))
		}
		return int(count) * u.months, time.Duration(count) * u.length, ""
	}
	return 0, 0, fmt.Sprintf("%q is not a duration; write %s", shorten(text, 40), durationForm)
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

// String returns the lag in its text form: "1d", "2mo", a plain number for integer
// partitions, or "" for no lag.
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

// lag decodes a duration, or a whole number for integer partitions.
func (d *decoder) lag(at place) Lag {
	if at.kind == kindWhole {
		return Lag{Count: d.whole(at, 0, maxInt64)}
	}
	if at.kind != kindText {
		d.fail(at.path, "must be a duration (also in months, mo, and years, y), or a whole number for integer partitions, not %s", at.kind)
		return Lag{}
	}
	months, length, message := readDuration(at.text)
	if message != "" {
		d.fail(at.path, "%s; a lag may also be in months (mo) and years (y), or a whole number for integer partitions", message)
	}
	return Lag{Months: months, Time: length}
}

// tolerance decodes a duration, or a whole number for long columns.
func (d *decoder) tolerance(at place) Lag {
	if at.kind == kindWhole {
		return Lag{Count: d.whole(at, 0, maxInt64)}
	}
	return Lag{Time: d.duration(at)}
}

// duration decodes a duration without months and years.
func (d *decoder) duration(at place) time.Duration {
	if at.kind != kindText {
		d.fail(at.path, "must be a duration, %s, not %s", durationForm, at.kind)
		return 0
	}
	months, length, message := readDuration(at.text)
	switch {
	case message != "":
		d.fail(at.path, "%s", message)
	case months != 0:
		d.fail(at.path, "months and years have no fixed length; write it in days (d) or hours (h)")
	}
	return length
}
