package joined

import (
	"slices"

	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// Layout describes where the columns of a stream are: in the scanned training rows, and in joined
// batches.
type Layout struct {
	Columns  []lane.Column  // the location of each output of the RangesSpec in a joined batch
	Key      []int          // indices of RangesSpec.Key among the columns of the scanned training rows
	KeptKey  []int          // indices of RangesSpec.Key among the columns of joined batches; nil if batches do not consist of requests
	Appended int            // index of the first column of joined batches that the Transform appended
	Requests *lane.Requests // the dictionary column with the columns that are constant within a request; nil: there is none

	read     columns         // columns read from the training table
	kept     []carriedColumn // the columns of read that the joined batches have
	requests *requestInput   // nil: joined batches have all training columns as plain columns
	appended int             // number of columns that every Transform appends
}

// carriedColumn is a training column of the joined batches. Overlays replace values in the joined
// batches. If a column is needed both with and without overlays, there are two carriedColumns for
// it.
type carriedColumn struct {
	at       int // index in Layout.read
	overlaid bool
}

// newLayout returns a layout for the outputs of the training table.
func newLayout(spec *RangesSpec, outputs []resolve.Output) *Layout {
	l := &Layout{}
	if spec.Shuffle != nil {
		l.appended = spec.Shuffle.Appended
	}
	if spec.IndexRequests {
		l.requests = newRequestInput(&l.read, spec.Plan.Relation, outputs)
	}
	for _, o := range outputs {
		if o.OfTraining() && !l.requests.has(o) {
			l.place(o)
		}
	}
	for _, f := range spec.Key {
		l.Key = append(l.Key, l.read.add(column{field: f}))
		if spec.Plan.Rows.Requests {
			l.KeptKey = append(l.KeptKey, l.place(resolve.Output{Table: resolve.TrainingTable, Field: f}))
		}
	}
	return l
}

// finish sets the locations of the outputs. It is called after all staging inputs have added the
// training columns that they need.
func (l *Layout) finish(outputs []resolve.Output, staging []*stagingInput) {
	l.Columns, l.Appended, l.Requests = l.locate(outputs, staging), len(l.kept), l.requests.requests(l.requestColumn())
}

// SendRequestsApart is called if the columns of Requests are not sent as an indexed column after
// all. From the next batch on, every row then refers to itself in the dictionary of Requests.
func (l *Layout) SendRequestsApart() {
	if l.requests != nil {
		l.requests.apart = true
	}
}

// place returns the index of a training output among the training columns of the joined
// batches, appending it if it is new.
func (l *Layout) place(o resolve.Output) int {
	one := carriedColumn{at: l.read.add(column{field: o.Field, shapes: o.Shapes}), overlaid: len(o.Overlays) > 0}
	i := slices.Index(l.kept, one)
	if i < 0 {
		l.kept = append(l.kept, one)
		i = len(l.kept) - 1
	}
	return i
}

// locate returns the locations of outputs in a joined batch.
func (l *Layout) locate(outputs []resolve.Output, staging []*stagingInput) []lane.Column {
	at := make([]lane.Column, len(outputs))
	for i, o := range outputs {
		at[i] = l.column(o, staging)
	}
	return at
}

// column returns the location of an output in a joined batch.
func (l *Layout) column(o resolve.Output, staging []*stagingInput) lane.Column {
	switch {
	case o.Computed != nil:
		return computedColumn(o, l.locate(o.Parts, staging))
	case o.Dense != nil:
		return lane.Column{Made: &lane.Made{Columns: l.locate(o.Parts, staging), Schema: resolve.Schema(o.Parts), Fill: o.Dense.Fill}}
	case l.requests.has(o):
		return lane.Column{Index: l.requestColumn(), Field: l.requests.field(o)}
	case o.OfTraining():
		return lane.Column{Index: l.place(o), Field: lane.Plain}
	}
	number := slices.IndexFunc(staging, func(in *stagingInput) bool { return in.table == o.Table })
	in := staging[number]
	field := len(in.shown) // the field that reports whether the row matched
	if !o.Matched {
		field = in.field(column{field: o.Field, shapes: o.Shapes}, o.Default)
	}
	return lane.Column{Index: l.carried() + number, Field: field}
}

// carried returns the number of columns of the joined batches that come from the training rows: the
// kept columns, the appended columns, and the dictionary of the columns that are constant within a
// request.
func (l *Layout) carried() int {
	if l.requests == nil {
		return l.requestColumn()
	}
	return l.requestColumn() + 1
}

// scanned returns, for each column that carried counts, its index among the columns of the
// transformed training rows.
func (l *Layout) scanned() []int {
	at := make([]int, l.carried())
	for i := range at {
		if at[i] = len(l.read) + i - len(l.kept); i < len(l.kept) {
			at[i] = l.kept[i].at
		}
	}
	return at
}

// requestColumn returns the index, in joined batches, of the dictionary of the columns that are
// constant within a request, if there is such a dictionary.
func (l *Layout) requestColumn() int { return len(l.kept) + l.appended }
