package stream

import (
	"slices"

	"github.com/penstock/penstock/loader/resolve"
)

// Form is the form of the batches of a stream: which of the columns that may be indexed are.
type Form struct{ indexed, plain []string }

// Agrees reports whether two forms index the same of their common columns.
func (f Form) Agrees(o Form) bool {
	in := func(names []string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	return !slices.ContainsFunc(f.indexed, in(o.plain)) && !slices.ContainsFunc(f.plain, in(o.indexed))
}

// With returns the form of the columns of two forms that agree.
func (f Form) With(o Form) Form {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return Form{union(f.indexed, o.indexed), union(f.plain, o.plain)}
}

// Form returns the form of the stream's batches; false if it depends on the first batch, which
// was not read.
func (s *ShardReader) Form() (Form, bool) {
	return s.layout.form, s.layout.decided
}

// formOf returns the form of batches in which some of the candidates are indexed.
func formOf(candidates, indexed []resolve.Indexed) Form {
	var f Form
	for _, x := range candidates {
		if slices.ContainsFunc(indexed, func(o resolve.Indexed) bool { return o.Name == x.Name }) {
			f.indexed = append(f.indexed, x.Name)
		} else {
			f.plain = append(f.plain, x.Name)
		}
	}
	return f
}

// SetForm sets the form of the batches, unless it is decided.
func (s *ShardReader) SetForm(form Form) {
	if s.layout.decided {
		return
	}
	s.layout.decide(form)
	s.earlier.Distinct = make([]int64, len(s.layout.indexed))
	if s.reader == nil {
		return
	}
	if !s.layout.mayIndex(resolve.RequestTable) {
		s.sequences.joined.Layout.SendRequestsApart()
	}
	columns, tables := s.layout.columns(s.sequences.joined.Layout.Columns)
	s.reader.SetLayout(s.layout.schema, columns, tables)
}
