package fault

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMember is the maximum number of bytes of a member's name in a path.
const maxMember = 64

// FieldPath returns the path of a member of the object at path, for Field.Field: the
// names separated by a dot. It quotes a name that would be ambiguous and shortens a long
// one.
func FieldPath(path, name string) string {
	name = Shorten(name, maxMember)
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`.[]"`, r) }) {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// Shorten truncates a text to at most limit bytes, for messages.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// Printable is Shorten, with escapes for characters on which a terminal acts, and for bytes that are not
// UTF-8: values of rows may have any of them.
func Printable(text string, limit int) string {
	var out strings.Builder
	text = Shorten(text, limit)
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return out.String()
}
