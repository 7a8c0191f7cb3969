package expr

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

const (
	secondsPerDay = 24 * 60 * 60
	nanosPerDay   = secondsPerDay * int64(time.Second)
)

// instant is a date, a time of day or a timestamp: days since 1970-01-01 and
// nanoseconds since midnight. Years are 1 to 9999.
type instant struct {
	days  int64
	nanos int64 // 0 ≤ nanos < nanosPerDay; 0 for dates
	zoned bool  // whether the literal had an offset; days and nanos are UTC
}

// units returns the instant in units of the given number of nanoseconds.
func (t instant) units(nanosPerUnit int64) number {
	total := new(big.Int).Mul(big.NewInt(t.days), big.NewInt(nanosPerDay))
	total.Add(total, big.NewInt(t.nanos))
	scale := 0
	for unit := nanosPerUnit; unit > 1; unit /= 10 {
		scale++
	}
	return newNumber(total, scale)
}

// instantOf is the inverse of units for whole numbers.
func instantOf(units, nanosPerUnit int64, zoned bool) instant {
	perDay := nanosPerDay / nanosPerUnit
	days, rest := units/perDay, units%perDay
	if rest < 0 {
		days, rest = days-1, rest+perDay
	}
	return instant{days: days, nanos: rest * nanosPerUnit, zoned: zoned}
}

// date renders YYYY-MM-DD.
func (t instant) date() string {
	return time.Unix(t.days*secondsPerDay, 0).UTC().Format(time.DateOnly)
}

// clock renders HH:MM:SS with a fraction without trailing zeros.
func (t instant) clock() string {
	return time.Unix(0, t.nanos).UTC().Format("15:04:05.999999999")
}

// timestamp renders the date, the time and, if the literal had an offset, +00:00.
func (t instant) timestamp() string {
	zone := ""
	if t.zoned {
		zone = "+00:00"
	}
	return t.date() + " " + t.clock() + zone
}

// parseDate parses YYYY-MM-DD.
func parseDate(s string) (instant, error) {
	t, rest, err := cutDate(s)
	if err == nil && rest != "" {
		err = errors.New("more follows")
	}
	if err != nil {
		return instant{}, fmt.Errorf("'%s' is not a date such as '2026-10-01': %w", shorten(s), err)
	}
	return t, nil
}

// parseTime parses HH:MM[:SS[.fraction]].
func parseTime(s string) (instant, error) {
	nanos, rest, err := cutClock(s)
	if err == nil && rest != "" {
		err = errors.New("more follows")
	}
	if err != nil {
		return instant{}, fmt.Errorf("'%s' is not a time such as '12:30:00': %w", shorten(s), err)
	}
	return instant{nanos: nanos}, nil
}

// parseTimestamp parses a date, or a date and a time separated by a space or T, with
// an optional offset.
func parseTimestamp(s string) (instant, error) {
	t, err := timestampOf(s)
	if err != nil {
		return instant{}, fmt.Errorf("'%s' is not a timestamp such as '2026-10-01 12:00:00': %w", shorten(s), err)
	}
	return t, nil
}

func timestampOf(s string) (instant, error) {
	t, rest, err := cutDate(s)
	if err != nil || rest == "" {
		return t, err
	}
	if rest[0] != ' ' && rest[0] != 'T' && rest[0] != 't' {
		return instant{}, errors.New("a space or T must separate date and time")
	}
	if t.nanos, rest, err = cutClock(rest[1:]); err != nil || rest == "" {
		return t, err
	}
	offset, err := parseOffset(strings.TrimPrefix(rest, " "))
	if err != nil {
		return instant{}, err
	}
	t.zoned = true
	t.nanos -= offset
	if t.nanos < 0 {
		t.days, t.nanos = t.days-1, t.nanos+nanosPerDay
	} else if t.nanos >= nanosPerDay {
		t.days, t.nanos = t.days+1, t.nanos-nanosPerDay
	}
	if year := time.Unix(t.days*secondsPerDay, 0).UTC().Year(); year < 1 || year > 9999 {
		return instant{}, errors.New("in UTC it is outside the years 1 to 9999")
	}
	return t, nil
}

// cutDate parses a date at the beginning of a text and returns the rest.
func cutDate(s string) (t instant, rest string, err error) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return instant{}, "", errors.New("the form is YYYY-MM-DD")
	}
	year, okYear := digitsOf(s[:4])
	month, okMonth := digitsOf(s[5:7])
	day, okDay := digitsOf(s[8:10])
	if !okYear || !okMonth || !okDay {
		return instant{}, "", errors.New("the form is YYYY-MM-DD")
	}
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if year < 1 || at.Month() != time.Month(month) || at.Day() != day {
		return instant{}, "", errors.New("there is no such day")
	}
	return instant{days: at.Unix() / secondsPerDay}, s[10:], nil
}

// cutClock parses a time of day at the beginning of a text, in nanoseconds.
func cutClock(s string) (nanos int64, rest string, err error) {
	wrong := errors.New("the form of a time is HH:MM:SS")
	if len(s) < 5 || s[2] != ':' {
		return 0, "", wrong
	}
	hour, okHour := digitsOf(s[:2])
	minute, okMinute := digitsOf(s[3:5])
	second, okSecond := 0, true
	s = s[5:]
	if strings.HasPrefix(s, ":") {
		end := min(3, len(s))
		second, okSecond = digitsOf(s[1:end])
		okSecond = okSecond && end == 3
		s = s[end:]
	}
	switch {
	case !okHour || !okMinute || !okSecond:
		return 0, "", wrong
	case hour > 23 || minute > 59 || second > 59:
		return 0, "", errors.New("there is no such time")
	}
	nanos = int64(hour*3600+minute*60+second) * int64(time.Second)
	if !strings.HasPrefix(s, ".") {
		return nanos, s, nil
	}
	n := digits(s[1:])
	if n < 1 || n > 9 {
		return 0, "", errors.New("a fraction of a second has 1 to 9 digits")
	}
	fraction, _ := digitsOf((s[1:n+1] + "00000000")[:9])
	return nanos + int64(fraction), s[n+1:], nil
}

// parseOffset parses Z, ±HH, ±HH:MM or ±HHMM, in nanoseconds east of UTC.
func parseOffset(s string) (int64, error) {
	if s == "Z" || s == "z" {
		return 0, nil
	}
	wrong := errors.New("an offset is Z, or of the form +02:00")
	if len(s) == 6 && s[3] == ':' {
		s = s[:3] + s[4:]
	}
	if len(s) == 3 {
		s += "00"
	}
	if len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return 0, wrong
	}
	hours, okHours := digitsOf(s[1:3])
	minutes, okMinutes := digitsOf(s[3:])
	if !okHours || !okMinutes || hours > 18 || minutes > 59 {
		return 0, wrong
	}
	offset := int64(hours*60+minutes) * int64(time.Minute)
	if s[0] == '-' {
		offset = -offset
	}
	return offset, nil
}

// digitsOf parses a text that consists of a few digits.
func digitsOf(s string) (value int, ok bool) {
	for _, c := range []byte(s) {
		if !isDigit(rune(c)) {
			return 0, false
		}
		value = value*10 + int(c-'0')
	}
	return value, s != ""
}
