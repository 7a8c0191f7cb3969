package warehouse

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/scenario"
)

// Kind is a kind of change of a column.
type Kind string

// The kinds of changes. A replaced column was dropped, and another column with the same name was
// added. A dropped column is only in the first files.
const (
	Added     Kind = "added"
	Renamed   Kind = "renamed"
	Promoted  Kind = "promoted"
	Replaced  Kind = "replaced"
	Relaxed   Kind = "relaxed"   // it was required before
	Tightened Kind = "tightened" // it was optional before
	Gone      Kind = "gone"
	Inside    Kind = "inside" // the last field of a struct had another name
)

// SchemaChange is a change of one column.
type SchemaChange struct {
	Kind    Kind
	Column  string // its last name
	At      int    // number of the commit before which it was changed, from 0
	Was     string // renamed: the old name; promoted: the old type
	Default string // added, replaced: the initial default in a table's text form; "" is no default
	Late    bool   // whether the files of commit At were written before the change, and committed after it
}

// old reports whether the files of a commit have the column before its change.
func (c SchemaChange) old(commit int) bool { return commit < c.At || c.Late && commit == c.At }

// History is the history of a table, which a case does not define. Commits are numbered
// from 0, and each has rows.
type History struct {
	Format  int // format version with which the table was created
	Upgrade int // commit before which a table is upgraded from version 1 to 2; 0 is never
	Changes []SchemaChange
	Lost    []bool // by commit, whether its snapshot has expired
	Merged  int    // commit that rewrote the manifests of all earlier commits; 0 is no commit
	Stale   bool   // whether late writers wrote their manifests with the old schema, which they knew
	Unnamed bool   // version 1: whether snapshots do not name their schema
	Erased  []Erased
}

// Sequence is the sequence number of a commit's files.
func (h History) Sequence(commit int) int64 {
	switch {
	case h.Format > 1:
		return int64(commit + 1)
	case h.Upgrade > 0 && commit >= h.Upgrade:
		return int64(commit - h.Upgrade + 1)
	default:
		return 0
	}
}

// Rank is the position of a commit's snapshot among the snapshots that have not expired, from 1. It
// is 0 if the commit's snapshot has expired.
func (h History) Rank(commit int) int {
	from := 0
	for i, lost := range h.Lost {
		if lost {
			from = i + 1
		}
	}
	return max(0, commit-from+1)
}

// Unordered reports whether the order of some commits is no longer known.
func (h History) Unordered() bool {
	unknown := 0
	for i := range h.Lost {
		if h.Sequence(i) == 0 && h.Rank(i) == 0 {
			unknown++
		}
	}
	return unknown > 1
}

// rewrites reports whether one of the columns was added or replaced, so that older rows have lost
// their original values in this column.
func (h History) rewrites(columns []string) bool {
	return slices.ContainsFunc(h.Changes, func(c SchemaChange) bool {
		return (c.Kind == Added || c.Kind == Replaced) && slices.Contains(columns, c.Column)
	})
}

// format is the version of a commit's metadata.
func (h History) format(commit int) int {
	if h.Upgrade > 0 && commit >= h.Upgrade {
		return 2
	}
	return h.Format
}

// NewHistory makes a random history for a table and changes the table accordingly: rows that are
// older than a column have null or the column's default. The columns in often are changed more
// often than other columns.
func NewHistory(seed uint64, t *scenario.Table, often ...string) History {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 23)), table: t, often: often}
	t.Commits = slices.DeleteFunc(t.Commits, func(c scenario.Commit) bool { return len(c.Lines) == 0 })
	m.divide()
	m.Format = []int{1, 1, 2, 2, 3, 3}[m.IntN(6)]
	if strings.Contains(t.Header, "_ns") {
		m.Format = 3 // the first version that has nanoseconds
	}
	commits := len(t.Commits)
	if m.Format == 1 && commits > 1 && m.IntN(2) == 0 {
		m.Upgrade = 1 + m.IntN(commits-1)
	}
	m.Lost = make([]bool, commits)
	if commits > 1 && m.IntN(2*m.Format) == 0 {
		for i := range 1 + m.IntN(commits-1) {
			m.Lost[i] = m.IntN(4) > 0
		}
	}
	if commits > 1 && m.IntN(4) == 0 {
		m.Merged = 1 + m.IntN(commits-1)
	}
	m.Stale, m.Unnamed = m.IntN(2) == 0, m.Format == 1 && m.IntN(6) == 0
	for range []int{0, 0, 0, 1, 1, 2}[m.IntN(6)] {
		m.change()
	}
	if len(m.often) > 0 {
		m.change()
	}
	if m.Format == 3 && commits > 0 && m.IntN(10) == 0 {
		m.late()
	}
	m.erasures()
	return m.History
}

// maker makes histories.
type maker struct {
	*rand.Rand
	History
	table *scenario.Table
	often []string // columns that are changed in half of all cases
}

// divide sometimes splits a commit, so that the rules first and last choose among rows of many
// commits.
func (m *maker) divide() {
	if m.IntN(2) > 0 {
		return
	}
	var commits []scenario.Commit
	for _, c := range m.table.Commits {
		size := 1 + m.IntN(len(c.Lines))
		for lines := range slices.Chunk(c.Lines, max(size, (len(c.Lines)+2)/3)) {
			part := c
			part.Lines = slices.Clone(lines)
			commits = append(commits, part)
		}
	}
	m.table.Commits = commits
}

// late adds a column with a default. The files of the first commit lack the column, and all other
// files have it, but the metadata does not record this.
func (m *maker) late() {
	columns := m.columns()
	for _, at := range m.Perm(len(columns)) {
		c := SchemaChange{Kind: Added, Column: columns[at].name, Late: true, Default: defaults[columns[at].kind].text}
		if c.Default != "" && !m.changed(c.Column) && m.fits(&c, columns[at]) {
			m.Changes = append(m.Changes, c)
			m.rewrite(c, at)
			return
		}
	}
}

// change adds a change of a random column, if the column has no change yet and the change is
// possible for it.
func (m *maker) change() {
	columns := m.columns()
	if len(columns) == 0 || len(m.table.Commits) == 0 {
		return
	}
	at, kinds := m.IntN(len(columns)), []Kind{Added, Added, Added, Renamed, Promoted, Promoted, Replaced, Relaxed, Tightened, Gone}
	if name := ""; len(m.often) > 0 && m.IntN(3) > 0 {
		name, kinds = m.often[m.IntN(len(m.often))], []Kind{Added, Promoted}
		at = max(0, slices.IndexFunc(columns, func(c column) bool { return c.name == name }))
	}
	column := columns[at]
	commits := len(m.table.Commits)
	c := SchemaChange{Column: column.name, At: m.IntN(commits + 1)}
	c.Kind = kinds[m.IntN(len(kinds))]
	if strings.HasPrefix(column.kind, "struct") && m.IntN(2) == 0 {
		c.Kind = Inside
	}
	c.Late = c.At < commits && m.IntN(2) == 0
	if c.Kind == Gone {
		c.Column = "gone"
	}
	if m.changed(c.Column) || !m.fits(&c, column) {
		return
	}
	if other := columns[m.IntN(len(columns))]; c.Kind == Renamed && m.IntN(2) == 0 && other != column && !m.changed(other.name) {
		c.Was = other.name // and the other way round: the two columns exchange their names
		back := c
		back.Column, back.Was = other.name, column.name
		m.Changes = append(m.Changes, back)
	}
	m.Changes = append(m.Changes, c)
	if c.Kind == Added || c.Kind == Replaced {
		m.rewrite(c, at)
	}
}

func (m *maker) changed(column string) bool {
	return slices.ContainsFunc(m.Changes, func(c SchemaChange) bool { return c.Column == column })
}

// column is a column of a table's header.
type column struct {
	name, kind string
	required   bool
	at         int // position in the header
}

func (m *maker) columns() []column {
	var all []column
	for i, word := range strings.Fields(m.table.Header) {
		name, kind, _ := strings.Cut(word, ":")
		kind, required := strings.CutSuffix(kind, "!")
		all = append(all, column{name, kind, required, i})
	}
	return all
}

// fits completes a change. It returns false if the change is impossible for the column.
func (m *maker) fits(c *SchemaChange, column column) bool {
	switch c.Kind {
	case Added, Replaced:
		if column.name == "item" || column.name == "row" || m.partitioned(column.name) {
			return false // item and row identify rows, and partition values depend on the original values
		}
		if given, ok := defaults[column.kind]; ok && m.Format == 3 && (column.required || m.IntN(4) > 0 || c.Default != "") {
			c.Default = given.text
		}
		return !column.required || c.Default != ""
	case Renamed:
		c.Was = "old_" + column.name
	case Promoted:
		c.Was = m.narrow(c, column)
		return c.Was != ""
	case Relaxed:
		return !column.required && !m.holdsNull(c, column)
	case Tightened:
		return column.required
	case Inside, Gone:
	}
	return true
}

// defaults has initial defaults for some types, in the text form of tables and in the form of
// Iceberg's metadata ("JSON single-value serialization").
//
//nolint:gochecknoglobals // a constant table
var defaults = map[string]struct {
	text     string
	metadata any
}{
	"int":            {"77", 77},
	"long":           {"77", 77}, // must be castable: label is cast
	"double":         {"7.75", 7.75},
	"float":          {"7.75", 7.75},
	"boolean":        {"true", true},
	"string":         {"given", "given"},
	"binary":         {"AAEC/w==", "000102ff"},
	"uuid":           {"f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
	"fixed(3)":       {"AAH/", "0001ff"},
	"date":           {"2017-11-16", "2017-11-16"},
	"time":           {"@81068123456", "22:31:08.123456"},
	"timestamp":      {"@1510871468123456", "2017-11-16T22:31:08.123456"},
	"timestamptz":    {"@1510871468123456", "2017-11-16T22:31:08.123456+00:00"},
	"timestamp_ns":   {"@1510871468123456789", "2017-11-16T22:31:08.123456789"},
	"timestamptz_ns": {"@1510871468123456789", "2017-11-16T22:31:08.123456789+00:00"},
	"decimal(9,2)":   {"-14.20", "-14.20"},
	"decimal(18,0)":  {"14", "14"},
	"decimal(38,10)": {"1420000000000.0000000001", "1420000000000.0000000001"},
	"list<long>":     {"[1,16777215]", []any{1, 16777215}}, // values that fit every type to which queries cast
}

// partitioned reports whether a column is the source of a partition field.
func (m *maker) partitioned(name string) bool {
	return slices.ContainsFunc(m.table.Specs, func(spec string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(spec, func(r rune) bool { return strings.ContainsRune(" (),", r) }), func(word string) bool { return word == name })
	})
}

// words returns the values of a line.
func words(line string) []string { return scenario.Words(line) }

// old calls f with a column's values in the commits that were made before a
// change, until it returns false.
func (m *maker) old(c *SchemaChange, column column, f func(text string) bool) bool {
	for i, commit := range m.table.Commits {
		for _, line := range commit.Lines {
			if c.old(i) && !f(words(line)[column.at]) {
				return false
			}
		}
	}
	return true
}

func (m *maker) holdsNull(c *SchemaChange, column column) bool {
	return !m.old(c, column, func(text string) bool { return text != null })
}

// null is the word for a null in the text form of tables.
const null = "-"

// narrow returns a type from which a column can have been promoted, or "".
func (m *maker) narrow(c *SchemaChange, column column) string {
	var precision, scale int
	decimal, _ := fmt.Sscanf(column.kind, "decimal(%d,%d)", &precision, &scale)
	var was string
	var holds func(text string) bool
	switch {
	case column.kind == "long":
		was, holds = "int", func(text string) bool {
			_, err := strconv.ParseInt(text, 10, 32)
			return err == nil
		}
	case column.kind == "double":
		was, holds = "float", func(text string) bool {
			f, err := strconv.ParseFloat(text, 64)
			return err == nil && (f != f || float64(float32(f)) == f)
		}
	case decimal == 2 && precision > scale+2:
		was, holds = fmt.Sprintf("decimal(%d,%d)", precision-1, scale), func(text string) bool {
			return len(strings.Trim(text, "-.")) < precision
		}
	default:
		return ""
	}
	if !m.old(c, column, func(text string) bool { return text == null || holds(text) }) {
		return ""
	}
	return was
}

// rewrite sets the values that a read returns for a column in rows that are older than the column.
func (m *maker) rewrite(c SchemaChange, at int) {
	for i := range m.table.Commits {
		if !c.old(i) {
			continue
		}
		lines := m.table.Commits[i].Lines
		for k, line := range lines {
			values := words(line)
			values[at] = null
			if c.Default != "" {
				values[at] = c.Default
			}
			lines[k] = strings.Join(values, " ")
		}
	}
}
