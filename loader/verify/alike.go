package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// KeyDifference is how two keys are written in different ways.
type KeyDifference string

// The differences of two keys, from the least to the greatest.
const (
	same        KeyDifference = "" // none
	whiteSpace  KeyDifference = "white space"
	letterCase  KeyDifference = "upper and lower case"
	times       KeyDifference = "the form or the zone of times"
	punctuation KeyDifference = "punctuation"
	zeros       KeyDifference = "leading zeros"
	affixes     KeyDifference = "letters before or after the digits"
)

// differences returns the distinct differences of two keys' values, one for each column.
func differences(a, b []string) []KeyDifference {
	var all []KeyDifference
	for i := range a {
		if d := differenceOf(a[i], b[i]); d != same && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// differenceOf returns the least difference of two values whose digits, or folded forms, are
// equal.
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

// fold returns a form that values have in common if they differ at most in leading zeros, or
// name the same time. Zeros are leading where no digit is before them.
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

// digits returns the digits of a value without leading zeros, or its folded form if there are
// none.
func digits(s string) string {
	only := strings.TrimLeft(strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s), "0")
	return cmp.Or(only, fold(s))
}

// instant returns the time that a value names, in UTC, or "" if it names none.
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
