package svg

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable returns a text with at most the given number of characters, for people. It cuts longer texts, and replaces each
// byte that is not UTF-8, and each character that does not print, by U+FFFD: control characters, and characters that
// reverse the direction of the text around them. The result is valid in XML and HTML after escaping.
func Printable(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == limit {
			b.WriteRune('…')
			break
		}
		if !unicode.IsGraphic(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// Count returns a number with commas between groups of three digits.
func Count(n int64) string {
	text, sign := decimal(n)
	for at := len(text) - groupDigits; at > 0; at -= groupDigits {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}

const groupDigits = 3

// decimal returns the digits and the sign of a number.
func decimal(n int64) (digits, sign string) {
	text := strconv.FormatInt(n, 10)
	if text[0] == 0x2d {
		return text[1:], text[:1]
	}
	return text, ""
}
