package verify

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// KeyDifference is a way in which the spellings of two keys differ.
type KeyDifference string

// The differences, from the smallest to the greatest.
const (
	same        KeyDifference = "" // none
	whiteSpace  KeyDifference = "white space"
	letterCase  KeyDifference = "upper and lower case"
	times       KeyDifference = "the form or the zone of times"
	decimals    KeyDifference = "decimals of whole numbers"
	punctuation KeyDifference = "punctuation"
	zeros       KeyDifference = "leading zeros"
	affixes     KeyDifference = "letters before or after the digits"
)

// differences returns the distinct differences between two keys. a and b have the values of the
// keys by column.
func differences(a, b []string) []KeyDifference {
	var all []KeyDifference
	add := func(d KeyDifference) {
		if d != same && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	for i := range a {
		d := differenceOf(a[i], b[i])
		if d == punctuation && unmarked(a[i]) != unmarked(b[i]) {
			add(letterCase) // as well: without the punctuation, the values are still not equal
		}
		add(d)
	}
	return all
}

// differenceOf returns the smallest difference that explains how two values differ. The results of
// appendDigits or of appendFolded must be equal for both values.
func differenceOf(a, b string) KeyDifference {
	switch {
	case a == b:
		return same
	case spaceless(a) == spaceless(b):
		return whiteSpace
	case strings.EqualFold(spaceless(a), spaceless(b)):
		return letterCase
	case instant(a) != "" && instant(a) == instant(b):
		return times
	case plain(whole(a)) == plain(whole(b)) && plain(a) != plain(b):
		return decimals
	case plain(a) == plain(b):
		return punctuation
	case fold(a) == fold(b):
		return zeros
	}
	return affixes
}

// respelled reports whether one of two different values is probably another spelling of the other,
// and not another key: the values have different styles. Keys such as "aB1" and "Ab1", "ab-c" and
// "a-bc" or "user_1" and "item_1" have the same style, and may be different keys of one table.
func respelled(a, b string) bool {
	switch differenceOf(a, b) {
	case same, whiteSpace, times, decimals, zeros:
		return true
	case letterCase:
		return caseOf(a) != caseOf(b)
	case punctuation:
		return marks(a) != marks(b)
	case affixes:
		a, b = plain(a), plain(b)
		if len(a) < len(b) {
			a, b = b, a
		}
		return strings.HasPrefix(a, b) || strings.HasSuffix(a, b)
	}
	return false
}

// spaceless returns a value without white space.
func spaceless(s string) string { return strings.Join(strings.Fields(s), "") }

// caseOf reports whether a value has upper-case and lower-case letters.
func caseOf(s string) (of [2]bool) {
	return [2]bool{strings.ContainsFunc(s, unicode.IsUpper), strings.ContainsFunc(s, unicode.IsLower)}
}

// marks returns the characters of a value that are neither letters nor digits.
func marks(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return -1
		}
		return r
	}, s)
}

// unmarked returns the letters and digits of a value.
func unmarked(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// plain returns the letters and digits of a value, in lower case.
func plain(s string) string { return strings.Map(unicode.ToLower, unmarked(s)) }

// whole returns a whole number without its decimals, as in "12.0", and other values as they are.
func whole(s string) string {
	trimmed := strings.TrimSpace(s)
	number := strings.TrimRight(trimmed, "0")
	if !strings.HasSuffix(number, ".") || len(number) < 2 { //nolint:mnd // a digit and the point
		return s
	}
	number = number[:len(number)-1]
	if strings.Trim(number, "0123456789") != "" {
		return s
	}
	return number
}

// appendFolded appends a text that is equal for two values if they name the same time, or if their
// letters and digits differ at most in case, in leading zeros, and in the decimals of whole numbers.
// A zero is leading if no digit precedes it and a digit follows it, or if it is at the start and a
// letter or digit follows it. A value without letters and digits remains as it is.
func appendFolded(dst []byte, s string) []byte {
	if at := instant(s); at != "" {
		return append(dst, at...)
	}
	s = whole(s)
	start, waiting, digits := len(dst), 0, false // waiting: zeros that are leading if a digit follows
	for _, r := range s {
		if r < utf8.RuneSelf && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z') {
			// the most frequent characters
		} else if unicode.IsLetter(r) || unicode.IsDigit(r) {
			r = unicode.ToLower(r)
		} else {
			continue
		}
		digit := unicode.IsDigit(r)
		if waiting > 0 && !digit && len(dst) > start {
			dst = append(dst, '0')
		}
		if r == '0' && !digits {
			waiting = 1
			continue
		}
		waiting, digits = 0, digit
		dst = utf8.AppendRune(dst, r)
	}
	if waiting > 0 {
		dst = append(dst, '0')
	}
	if len(dst) == start {
		return append(dst, s...)
	}
	return dst
}

// fold returns the text of appendFolded.
func fold(s string) string { return string(appendFolded(nil, s)) }

// appendDigits appends the digits of a value without leading zeros. If no digits remain, it appends
// the text of appendFolded.
func appendDigits(dst []byte, s string) []byte {
	start := len(dst)
	for _, r := range whole(s) {
		if unicode.IsDigit(r) && (r != '0' || len(dst) > start) {
			dst = utf8.AppendRune(dst, r)
		}
	}
	if len(dst) == start {
		return appendFolded(dst, s)
	}
	return dst
}

// instant returns the time that a value names, in UTC, or "" if the value is not a time.
func instant(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < len(time.DateTime) || s[4] != '-' || strings.Trim(s[:4], "0123456789") != "" {
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
