package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// KeyDifference is a way in which the spellings of two keys differ.
type KeyDifference string

// The differences, from the smallest to the greatest.
const (
	same        KeyDifference = "" // none
	whiteSpace  KeyDifference = "white space"
	letterCase  KeyDifference = "upper and lower case"
	times       KeyDifference = "the form or the zone of times"
	punctuation KeyDifference = "punctuation"
	zeros       KeyDifference = "leading zeros"
	affixes     KeyDifference = "letters before or after the digits"
)

// differences returns the distinct differences between two keys. a and b have the values of the
// keys by column.
func differences(a, b []string) []KeyDifference {
	var all []KeyDifference
	for i := range a {
		if d := differenceOf(a[i], b[i]); d != same && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// differenceOf returns the smallest difference that explains how two values differ. The results of
// digits or of fold must be equal for both values.
func differenceOf(a, b string) KeyDifference {
	spaceless := func(s string) string { return strings.Join(strings.Fields(s), "") }
	switch {
	case a == b:
		return same
	case spaceless(a) == spaceless(b):
		return whiteSpace
	case strings.EqualFold(spaceless(a), spaceless(b)):
		return letterCase
	case instant(a) != "" && instant(a) == instant(b):
		return times
	case plain(a) == plain(b):
		return punctuation
	case fold(a) == fold(b):
		return zeros
	}
	return affixes
}

// plain returns the letters and digits of a value, in lower case.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// fold returns a text that is equal for two values if they name the same time, or if their letters
// and digits differ at most in case and in leading zeros. A zero is leading if no digit precedes it
// and a digit follows it.
func fold(s string) string {
	if at := instant(s); at != "" {
		return at
	}
	s = plain(s)
	var out strings.Builder
	digits, rest := false, []rune(s)
	for i, r := range rest {
		more := i+1 < len(rest) && unicode.IsDigit(rest[i+1])
		if r == '0' && !digits && more {
			continue
		}
		digits = unicode.IsDigit(r)
		out.WriteRune(r)
	}
	return out.String()
}

// digits returns the digits of a value without leading zeros. If no digits remain, it returns the
// result of fold.
func digits(s string) string {
	only := strings.TrimLeft(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s), "0")
	return cmp.Or(only, fold(s))
}

// instant returns the time that a value names, in UTC, or "" if the value is not a time.
func instant(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < len(time.DateTime) || s[4] != '-' {
		return ""
	}
	s = s[:10] + "T" + s[11:]
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(form, s); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return ""
}
