package joined

import (
	"slices"

	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// Columns returns the location of each output of the RangesSpec in a joined batch.
func (s *Ranges) Columns() []lane.Column { return s.columns }

// Key returns the indices of RangesSpec.Key among the columns of the scanned training rows.
func (s *Ranges) Key() []int { return s.key }

// KeptKey returns the indices of RangesSpec.Key among the columns of the joined batches; nil
// without RangesSpec.KeepKey.
func (s *Ranges) KeptKey() []int { return s.keptKey }

// Appended returns the index of the first column of the joined batches that the
// Transform appended.
func (s *Ranges) Appended() int { return len(s.kept) }

// Requests returns the dictionary column of the columns that are constant within a
// request; nil if there is none.
func (s *Ranges) Requests() *lane.Requests { return s.requests.requests(s.requestColumn()) }

// SendRequestsApart makes every row refer to itself in that dictionary from the next batch
// on, since its columns are not indexed after all.
func (s *Ranges) SendRequestsApart() {
	if s.requests != nil {
		s.requests.apart = true
	}
}

// place returns the index of a training output among the training columns of the joined
// batches, appending it if it is new.
func (s *Ranges) place(o resolve.Output) int {
	one := carriedColumn{at: s.read.add(column{field: o.Field, shapes: o.Shapes}), overlaid: len(o.Overlays) > 0}
	i := slices.Index(s.kept, one)
	if i < 0 {
		s.kept = append(s.kept, one)
		i = len(s.kept) - 1
	}
	return i
}

// locate returns the locations of outputs in a joined batch.
func (s *Ranges) locate(outputs []resolve.Output) []lane.Column {
	at := make([]lane.Column, len(outputs))
	for i, o := range outputs {
		at[i] = s.column(o)
	}
	return at
}

// column returns the location of an output in a joined batch.
func (s *Ranges) column(o resolve.Output) lane.Column {
	switch {
	case o.Dense != nil:
		names := make([]string, len(o.Dense.Columns))
		for i, c := range o.Dense.Columns {
			names[i] = c.Name
		}
		return lane.Column{Dense: &lane.Dense{Columns: s.locate(o.Dense.Columns), Names: names, Fill: o.Dense.Fill}}
	case s.requests.has(o):
		return lane.Column{Index: s.requestColumn(), Field: s.requests.field(o)}
	case o.Table == resolve.TrainingTable:
		return lane.Column{Index: s.place(o), Field: lane.Plain}
	}
	number := slices.IndexFunc(s.staging, func(in *stagingInput) bool { return in.table == o.Table })
	in := s.staging[number]
	field := len(in.shown) // the field that reports whether the row matched
	if !o.Matched {
		field = in.field(column{field: o.Field, shapes: o.Shapes}, o.Default)
	}
	return lane.Column{Index: s.carried() + number, Field: field}
}

// carried returns the number of columns of the joined batches that come from the
// training rows: the kept ones, the appended ones, and the dictionary of the columns that
// are constant within a request.
func (s *Ranges) carried() int {
	if s.requests == nil {
		return s.requestColumn()
	}
	return s.requestColumn() + 1
}

// requestColumn returns the index of that dictionary, if there is one.
func (s *Ranges) requestColumn() int { return len(s.kept) + s.spec.Appended }
