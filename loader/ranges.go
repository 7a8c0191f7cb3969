package loader

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// ranges opens the ranges of a plan for one stream: scan, join, filter. It is used by one
// goroutine. Its invariants:
//   - references has, for a lane with an open range, one reference per staging input for
//     that range, and keeps them until the lane opens its next range or closes its last one;
//   - what is built and read ahead is for ranges that no lane has opened, and is passed
//     to the lane that opens them.
type ranges struct {
	ctx      context.Context //nolint:containedctx // of the stream: what is built ahead belongs to no call
	options  Options
	plan     *plan.Plan
	pool     *buildside.Pool
	columns  []lane.Column // the location of each output in a joined batch
	read     columns       // columns read from the training table
	kept     []placed      // those of them that the joined batches have
	requests *requestInput // nil: joined batches have all training columns as plain columns
	staging  []*stagingInput
	postJoin *postJoin // nil: the query's filter names no joined column
	// requestKey holds the indices in read of the columns by which rows are shuffled.
	requestKey []int
	givenKey   []int // the same as indices in kept, if batches consist of requests; else nil
	batchRows  int   // rows per batch of a shuffled range: as many as the lane takes in a step
	rowBytes   int64 // expected memory of the training columns of a row
	window     int64 // expected memory of the training columns of a shuffle window

	references map[int][]*buildside.Reference  // by lane
	built      map[turn][]*buildside.Reference // by staging input: what is built ahead; elements may be nil
	coming     map[turn]coming                 // training rows that are read ahead
	reached    map[int]int                     // by lane: the last range that was prepared ahead
	batches    int                             // joined so far
	open       map[int]*openRange              // by lane
	counts     []joiner.Counts                 // by staging input, of the closed ranges
	divided    int64                           // requests divided by windows or ranges, in the closed ranges
	counted    map[int]counted                 // by lane: where its first range resumes, if it was begun before
	ends       map[int]int                     // by lane: the index of the range before which it ends
	needed     map[int]int                     // by lane: the same under the stream's limit
	counting   bool                            // rows are read only to count them
}

// placed is a training column of the joined batches. Overlays replace it there, so an
// overlaid column is separate from the stored one.
type placed struct {
	at       int // index in ranges.read
	overlaid bool
}

// longestShuffled is the maximum number of rows that are permuted at a time.
const longestShuffled = 1 << 16

// longestWhole is the maximum number of rows of a window that are decoded into one
// batch.
const longestWhole = 1 << 17

// newRanges returns the ranges of a stream for the lanes at their positions. It takes
// over the counts of the stream's earlier ranges, which are closed.
func newRanges(ctx context.Context, of *stream, lanes []lane.Lane) (*ranges, error) {
	p, l := of.plan, of.loader
	s := &ranges{
		ctx: ctx, options: l.options, plan: p, pool: l.pool, counting: of.counting,
		batchRows: int(min(of.start.q, longestShuffled)), references: map[int][]*buildside.Reference{}, open: map[int]*openRange{}, counted: map[int]counted{},
		ends: map[int]int{}, needed: map[int]int{}, built: map[turn][]*buildside.Reference{}, coming: map[turn]coming{}, reached: map[int]int{},
	}
	if p.Rows.Requests {
		s.batchRows = defaultBatchRows // the number of rows of a step is unknown
	}
	wanted := slices.Concat(resolve.Leaves(of.outputs), p.PostJoinColumns)
	if of.form.mayIndex(resolve.RequestTable) {
		s.requests = newRequestInput(s, wanted)
	}
	for _, o := range wanted {
		if o.Table == resolve.TrainingTable && !s.requests.has(o) {
			s.place(o)
		}
	}
	s.placeKey()
	for i := range p.Relation.Staging {
		in, err := newStagingInput(s, i, wanted)
		if err != nil {
			return nil, err
		}
		if in != nil {
			s.staging = append(s.staging, in)
		}
	}
	for _, l := range lanes {
		s.ends[l.Number] = len(l.Ranges)
		s.needed[l.Number] = of.needed(l)
		for _, at := range p.Lanes[l.Number].Ranges[l.Start.Range:len(l.Ranges)] {
			for _, in := range s.staging {
				in.groups.Coming(at)
			}
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.rowBytes = expectedBytes(p, slices.DeleteFunc(wanted, func(o resolve.Output) bool { return o.Table != resolve.TrainingTable }))
	s.window = p.Rows.ShuffleWindow * s.rowBytes
	s.counts = make([]joiner.Counts, len(s.staging))
	if of.ranges != nil {
		s.follow(of.ranges)
	}
	s.columns = s.locate(of.outputs)
	if p.PostJoin != nil {
		s.postJoin = &postJoin{filter: p.PostJoin, schema: resolve.Schema(p.PostJoinColumns), columns: s.locate(p.PostJoinColumns), memory: s.options.Memory}
	}
	return s, nil
}

// placeKey reads the columns that identify requests, and passes them on to the lanes if
// batches consist of requests.
func (s *ranges) placeKey() {
	for _, f := range s.plan.RequestKey {
		s.requestKey = append(s.requestKey, s.read.add(column{field: f}))
		if s.plan.Rows.Requests {
			s.givenKey = append(s.givenKey, s.place(resolve.Output{Table: resolve.TrainingTable, Field: f}))
		}
	}
}

// check returns an Internal error if the stream would read a column that planning did
// not check, which happens if Open selects more columns than the plan was made for.
func (s *ranges) check() error {
	training := plan.Source{Table: s.plan.Relation.Training, Planned: s.plan.Planned.Training}
	for _, c := range s.read {
		if err := training.Check(c.field); err != nil {
			return err
		}
	}
	for _, in := range s.staging {
		source := plan.Source{Table: in.bound.Pinned, Planned: s.plan.Planned.Staging[in.table]}
		for _, c := range in.read {
			if err := source.Check(c.field); err != nil {
				return err
			}
		}
	}
	return nil
}

// place returns the index of a training output among the training columns of the joined
// batches, appending it if it is new.
func (s *ranges) place(o resolve.Output) int {
	one := placed{at: s.read.add(column{field: o.Field, shapes: o.Shapes}), overlaid: len(o.Overlays) > 0}
	i := slices.Index(s.kept, one)
	if i < 0 {
		s.kept = append(s.kept, one)
		i = len(s.kept) - 1
	}
	return i
}

// locate returns the locations of outputs in a joined batch: training columns first,
// then the dictionary of the columns that are constant within a request, if there is
// one, then one dictionary per staging input.
func (s *ranges) locate(outputs []resolve.Output) []lane.Column {
	at := make([]lane.Column, len(outputs))
	for i, o := range outputs {
		at[i] = s.column(o)
	}
	return at
}

// column returns the location of an output in a joined batch.
func (s *ranges) column(o resolve.Output) lane.Column {
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
// training rows: the kept ones, those that a shuffle appends, and the dictionary of the
// columns that are constant within a request.
func (s *ranges) carried() int {
	if s.requests == nil {
		return s.requestColumn()
	}
	return s.requestColumn() + 1
}

// requestColumn returns the index of that dictionary, if there is one.
func (s *ranges) requestColumn() int {
	if s.plan.Rows.ShuffleWindow == 0 {
		return len(s.kept)
	}
	return len(s.kept) + 2
}

// openRange opens one range of a lane. It is the lane.Open of the stream.
func (s *ranges) openRange(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	if s.plan.Rows.ShuffleWindow > 0 {
		return s.openShuffled(ctx, number, from)
	}
	of := turn{number, from.Range}
	at, skip := s.plan.Lanes[number].Ranges[from.Range], from.Row
	if s.plan.Inexact == "" {
		begin := skip
		if c, ok := s.counted[number]; ok && c.index == from.Range && c.row <= skip {
			begin = c.row
		}
		at.From, skip = at.From+begin, skip-begin
	}
	open := func(ctx context.Context) (Rows, error) { return s.rows(ctx, of, at) }
	o, err := s.join(ctx, of, at, open)
	if err != nil {
		return nil, err
	}
	o.skip = skip
	return lane.AsStored(batch.FromFunc(o.joined.Schema(), o.next, o.release)), nil
}

// join joins the rows that a lane reads of a range with the staging tables.
func (s *ranges) join(ctx context.Context, of turn, at plan.Range, open func(context.Context) (Rows, error)) (*openRange, error) {
	s.hold(of, at)
	training := withFiles(func(ctx context.Context) (Rows, error) {
		rows, err := open(ctx)
		if err != nil || s.requests == nil {
			return rows, err
		}
		return s.requests.refer(ctx, rows, s.options)
	})
	training.Columns = make([]int, s.carried())
	for i := range training.Columns {
		if training.Columns[i] = len(s.read) + i - len(s.kept); i < len(s.kept) {
			training.Columns[i] = s.kept[i].at
		}
	}
	probes := make([]joiner.Probe, len(s.staging))
	for i, in := range s.staging {
		reference := s.references[of.lane][i]
		probes[i] = joiner.Probe{
			Rule: in.rule, Key: in.key, Columns: in.fields(), Matched: in.spec.Matched,
			BuildSide: func(ctx context.Context) (joiner.Probeable, error) { return s.probeable(ctx, reference) },
		}
	}
	joined, err := joiner.Join(ctx, training, probes, s.options.joining())
	if err != nil {
		return nil, err
	}
	o := &openRange{ranges: s, turn: of, from: at.From, rows: at.To - at.From, joined: joined}
	s.open[of.lane] = o
	return o, nil
}

// training opens columns of those training rows of a range that reach the join.
func (s *ranges) training(ctx context.Context, at plan.Range, read columns) (Rows, error) {
	source := s.trainingSource(at)
	if s.plan.Relation.Distinct == nil {
		return s.options.scan(ctx, source, read)
	}
	return s.distinct(ctx, source, read)
}

func (s *ranges) trainingSource(at plan.Range) plan.Source {
	source := s.plan.Training(at)
	if s.window > 0 { // the next window is decoded while the current one is returned
		source.BatchRows, source.Ahead = int(min(s.plan.Rows.ShuffleWindow, longestWhole)), s.window
	}
	if s.counting && len(s.staging) == 0 {
		source.Checked = nil // the location of rows decides nothing here; the stream checks it
	}
	return source
}
