package stream

import (
	"slices"

	"github.com/penstock/penstock/loader/resolve"
)

// Form says which columns of a stream's batches are indexed, of the columns that may be indexed.
// The zero value is undecided.
type Form struct {
	decided        bool
	indexed, plain []string
}

// Decided reports whether the form is known. With wire: auto, it is unknown until the first batch
// is read.
func (f Form) Decided() bool { return f.decided }

// Agrees reports whether no column is indexed in one of two forms and plain in the other.
func (f Form) Agrees(o Form) bool {
	in := func(names []string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	return !slices.ContainsFunc(f.indexed, in(o.plain)) && !slices.ContainsFunc(f.plain, in(o.indexed))
}

// With returns the form that has the columns of both f and o. The two must agree.
func (f Form) With(o Form) Form {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return Form{f.decided || o.decided, union(f.indexed, o.indexed), union(f.plain, o.plain)}
}

// Form returns the form of the stream's batches.
func (s *ShardReader) Form() Form { return s.layout.form }

// formOf returns the form of batches in which some of the candidates are indexed.
func formOf(candidates, indexed []resolve.Indexed) Form {
	f := Form{decided: true}
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
	if s.layout.form.decided {
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
	s.reader.SetLayout(s.layout.inLane(s.sequences.joined.Layout.Columns))
}
