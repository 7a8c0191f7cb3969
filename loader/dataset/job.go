package dataset

import "strings"

// MaxJob is the maximum length of a query's job, in bytes.
const MaxJob = 128

// jobSigns are the characters of a job besides letters and digits of ASCII.
const jobSigns = "._-/:@+="

// JobLabel reports whether a text can be a query's job: 1 to MaxJob characters that need no quotes in logs, metrics and
// tables.
func JobLabel(text string) bool {
	return text != "" && len(text) <= MaxJob && !strings.ContainsFunc(text, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune(jobSigns, c)
	})
}
