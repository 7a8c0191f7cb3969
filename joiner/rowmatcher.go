package joiner

import (
	"context"
	"sort"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// RowMatcher is the [Matcher] of a [BuildSide]. It also returns the staging rows
// themselves.
type RowMatcher struct {
	built  *BuildSide
	rule   Rule
	search search

	// The last batch, by row.
	refs   []int32
	counts []int32 // as in Matches
	from   []int32 // where counts is not 0: where the rows start in groups.members
	spare  [2][]int32
}

// Match implements Matcher.
func (m *RowMatcher) Match(ctx context.Context, keys *Keys, refs []int32) (Matches, error) {
	m.refs, m.counts = refs, nil
	if err := m.search.lookup(ctx, keys, refs); err != nil {
		return Matches{}, err
	}
	for i, null := range keys.encoded.null {
		if null {
			refs[i] = 0
		}
	}
	switch {
	case m.rule.Time != nil:
		m.chooseByTime(keys.times)
	case m.built.groups.of != nil:
		m.chooseByRule()
	}
	return Matches{Dictionary: m.built.dictionary, Counts: m.counts}, nil
}

// Members returns the staging rows that match a row of the last batch, counted from 0 and
// in their order, if there are several; otherwise nil.
func (m *RowMatcher) Members(row int) []int32 {
	if m.counts == nil || m.counts[row] == 0 {
		return nil
	}
	from := m.from[row]
	return m.built.groups.members[from : from+max(m.counts[row], -m.counts[row])]
}

// chooseByRule chooses among the staging rows of each key by position.
func (m *RowMatcher) chooseByRule() {
	for i, ref := range m.refs {
		if ref == 0 {
			continue
		}
		if rows, from := m.built.groups.rows(ref - 1); rows != nil {
			m.setGroup(i, rows, from)
		}
	}
}

// setGroup records that several staging rows match a row, and chooses among them by the
// rule. They start at from in groups.members.
func (m *RowMatcher) setGroup(row int, rows []int32, from int32) {
	if m.counts == nil {
		m.counts, m.from = resize(&m.spare[0], len(m.refs)), resize(&m.spare[1], len(m.refs))
		clear(m.counts)
	}
	n := int32(len(rows))
	m.counts[row], m.from[row] = n, from
	if _, is := m.built.doubts.rival(from, n, m.rule.Duplicates.TakeLast()); is && m.rule.chooses() {
		m.counts[row] = -n
	}
	m.refs[row] = rows[0] + 1
	if m.rule.Duplicates.TakeLast() {
		m.refs[row] = rows[len(rows)-1] + 1
	}
}

// chooseByTime chooses, of the staging rows of each key, the latest that the rule admits.
func (m *RowMatcher) chooseByTime(wanted times) {
	for i, ref := range m.refs {
		if ref == 0 {
			continue
		}
		if wanted.null != nil && wanted.null[i] {
			m.refs[i] = 0
			continue
		}
		rows, from := m.built.groups.rows(ref - 1)
		if rows == nil {
			if !m.rule.Time.admits(m.built.times[ref-1], wanted.values[i]) {
				m.refs[i] = 0
			}
			continue
		}
		low, high := m.latest(rows, wanted.values[i])
		switch high - low {
		case 0:
			m.refs[i] = 0
		case 1:
			m.refs[i] = rows[low] + 1
		default:
			m.setGroup(i, rows[low:high], from+int32(low))
		}
	}
}

// latest returns the range of a key's rows (ascending by time) that share the latest time that the
// rule admits.
func (m *RowMatcher) latest(rows []int32, wanted int64) (low, high int) {
	at := m.built.times
	high = sort.Search(len(rows), func(i int) bool { return m.rule.Time.after(at[rows[i]], wanted) })
	if high == 0 || !m.rule.Time.admits(at[rows[high-1]], wanted) {
		return 0, 0
	}
	latest := at[rows[high-1]]
	return sort.Search(high, func(i int) bool { return at[rows[i]] >= latest }), high
}

// after reports whether a staging row is too late for a training row.
func (r *TimeRule) after(staging, training int64) bool {
	if r.Exact {
		return staging > training
	}
	return staging >= training
}

// admits reports whether a staging row is neither too late nor too old for a training
// row. The difference of two times may overflow int64.
func (r *TimeRule) admits(staging, training int64) bool {
	return !r.after(staging, training) && uint64(training)-uint64(staging) <= uint64(r.Tolerance)
}

// Expand implements Matcher.
func (m *RowMatcher) Expand(_ context.Context, rows, nth, refs []int32) (*array.Struct, error) {
	for i, row := range rows {
		refs[i] = m.refs[row]
		if m.counts != nil && m.counts[row] != 0 {
			refs[i] = m.built.groups.members[m.from[row]+nth[i]] + 1
		}
	}
	return m.built.dictionary, nil
}

// Rival returns the staging row that ties with the one that the rule chooses for a row of the
// last batch; false if there is none.
func (m *RowMatcher) Rival(row int) (int32, bool) {
	if m.counts == nil || m.counts[row] >= 0 {
		return 0, false
	}
	return m.built.doubts.rival(m.from[row], -m.counts[row], m.rule.Duplicates.TakeLast())
}

// Files returns the files of the first and last match of a row with several, or of the
// chosen one and its rival.
func (m *RowMatcher) Files(row int) (one, other string) {
	if rival, ok := m.Rival(row); ok {
		return fileOf(m.built.file, m.refs[row]-1), fileOf(m.built.file, rival)
	}
	rows := m.Members(row)
	return fileOf(m.built.file, rows[0]), fileOf(m.built.file, rows[len(rows)-1])
}

// Release implements Matcher.
func (m *RowMatcher) Release() {}

// fileOf returns the file of a staging row.
func fileOf(file func(row int64) string, row int32) string {
	if name := (Input{File: file}).file(int64(row)); name != "" {
		return name
	}
	return "(unnamed)"
}
