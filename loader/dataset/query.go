package dataset

import (
	"strings"
)

// Query describes what one client reads: the rows, and how it reads them.
// Decoding sets its defaults; call Defaults for queries that are built in Go.
type Query struct {
	Rows
	Reading
}

// Defaults returns the query with every unset field at its default, as decoding does. If there are
// cursors, the fields of the plan are taken from them. If there is exactly one cursor, Shard is
// taken from it, too. BatchRows and GlobalBatchRows are not changed.
func (q Query) Defaults() Query {
	if len(q.Cursor) > 0 {
		q.Rows = q.resumed(q.Cursor[0].Rows)
	}
	q.Reading = q.Reading.defaults()
	q.Rows = q.Rows.defaults(q.Reading)
	return q
}

// MaxJob is the maximum length of a query's job, in bytes.
const MaxJob = 128

// jobSigns are the characters that a job may have besides ASCII letters and digits.
const jobSigns = "._-/:@+="

// JobLabel reports whether a text can be a query's job: 1 to MaxJob characters that need no quotes in logs, metrics and
// tables.
func JobLabel(text string) bool {
	return text != "" && len(text) <= MaxJob && !strings.ContainsFunc(text, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune(jobSigns, c)
	})
}
