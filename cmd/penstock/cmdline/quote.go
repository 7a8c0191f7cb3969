package cmdline

import (
	"regexp"
	"strings"
)

// plainWord matches a word that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote quotes a text, if necessary, so that a POSIX shell reads it as one word of a command line.
func Quote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Join quotes words, if necessary, and returns them as a command line for a POSIX shell.
func Join(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}
