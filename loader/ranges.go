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

// ranges opens the ranges of a plan for one stream: scan, join, filter. It is
// used by one goroutine. It always holds that
//   - a lane that has a range open has in references one of each input, for that
//     range, or for the lane's last one until the next is opened;
//   - what is built and read ahead is for ranges that no lane has opened, and goes to
//     the lane that opens them.
type ranges struct {
	ctx      context.Context //nolint:containedctx // of the stream: what is built ahead belongs to no call
	options  Options
	plan     *plan.Plan
	pool     *buildside.Pool
	columns  []lane.Column // where each output lies in a joined batch
	read     columns       // what is read of the training table
	kept     []placed      // what of it goes on into the joined batches
	requests *requestInput // nil: training columns come beside the others
	staging  []*stagingInput
	postJoin *postJoin // nil: the query's filter names no joined column
	// requestKey are the positions in read of the columns by which rows are permuted.
	requestKey []int
	givenKey   []int // the same among kept, where lanes give requests; else nil
	batchRows  int   // of the shuffled rows of a range: as many as the lane takes in a step
	rowBytes   int64 // that the training columns of a row are expected to take in memory
	window     int64 // the same of a shuffle window

	references map[int][]*buildside.Reference  // by lane
	built      map[turn][]*buildside.Reference // by staging input: what is built ahead; nil is none
	coming     map[turn]coming                 // training rows that are read ahead
	reached    map[int]int                     // by lane: the last range of which something was begun ahead
	batches    int                             // that were joined so far
	open       map[int]*openRange              // by lane
	counts     []joiner.Counts                 // per staging input, of the ranges that were closed
	divided    int64                           // requests that windows or ranges divided, in the ranges that were closed
	counted    map[int]counted                 // by lane: where its first range goes on, if it was begun before
	ends       map[int]int                     // by lane: the number of the range that it ends before
	needed     map[int]int                     // by lane: the same, of the ranges that the stream's limit leaves
	counting   bool                            // rows are read for their number alone
}

// placed is a training column of the joined batches. Overlays replace it
// there, so that an overlaid column stands apart from the stored one.
type placed struct {
	at       int // position in ranges.read
	overlaid bool
}

// longestShuffled bounds the rows that are put in order at a time.
const longestShuffled = 1 << 16

// longestWhole bounds the rows of a window that are decoded into one batch.
const longestWhole = 1 << 17

// newRanges makes what opens the ranges of a stream's lanes, from where they stand.
// It takes over what an earlier one counted, which is closed.
func newRanges(ctx context.Context, of *stream, lanes []lane.Lane) (*ranges, error) {
	p, l := of.plan, of.loader
	s := &ranges{
		ctx: ctx, options: l.options, plan: p, pool: l.pool, counting: of.counting,
		batchRows: int(min(of.start.q, longestShuffled)), references: map[int][]*buildside.Reference{}, open: map[int]*openRange{}, counted: map[int]counted{},
		ends: map[int]int{}, needed: map[int]int{}, built: map[turn][]*buildside.Reference{}, coming: map[turn]coming{}, reached: map[int]int{},
	}
	if p.Rows.Requests {
		s.batchRows = defaultBatchRows // nobody knows how many rows a step has
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

// placeKey reads the columns that tell requests apart, and lets them go on to the lanes
// where these give requests.
func (s *ranges) placeKey() {
	for _, f := range s.plan.RequestKey {
		s.requestKey = append(s.requestKey, s.read.add(column{field: f}))
		if s.plan.Rows.Requests {
			s.givenKey = append(s.givenKey, s.place(resolve.Output{Table: resolve.TrainingTable, Field: f}))
		}
	}
}

// check is Internal if the stream would read a column that planning did not
// look at: an Open that names more columns than the plan was made for.
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

// place returns where a training output stands among the training columns of
// the joined batches, adding it if it is new.
func (s *ranges) place(o resolve.Output) int {
	one := placed{at: s.read.add(column{field: o.Field, shapes: o.Shapes}), overlaid: len(o.Overlays) > 0}
	i := slices.Index(s.kept, one)
	if i < 0 {
		s.kept = append(s.kept, one)
		i = len(s.kept) - 1
	}
	return i
}

// locate says where outputs lie in a joined batch: training columns first, then the
// dictionary of those that are constant within a request, if they have one, then one
// dictionary per staging input.
func (s *ranges) locate(outputs []resolve.Output) []lane.Column {
	at := make([]lane.Column, len(outputs))
	for i, o := range outputs {
		at[i] = s.column(o)
	}
	return at
}

// column says where one output lies in a joined batch.
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
	field := len(in.shown) // whether it matched
	if !o.Matched {
		field = in.field(column{field: o.Field, shapes: o.Shapes}, o.Default)
	}
	return lane.Column{Index: s.carried() + number, Field: field}
}

// carried is how many columns of the joined batches come of the training rows: those
// that go on, what a shuffle put behind them, and the dictionary of those that are
// constant within a request.
func (s *ranges) carried() int {
	if s.requests == nil {
		return s.requestColumn()
	}
	return s.requestColumn() + 1
}

// requestColumn is where that dictionary lies, if there is one.
func (s *ranges) requestColumn() int {
	if s.plan.Rows.ShuffleWindow == 0 {
		return len(s.kept)
	}
	return len(s.kept) + 2
}

// openRange opens one range of a lane: the lane.Open of the stream.
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

// join joins what a lane reads of a range with the staging tables.
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

// training opens columns of the training rows of a range that reach the join.
func (s *ranges) training(ctx context.Context, at plan.Range, read columns) (Rows, error) {
	source := s.trainingSource(at)
	if s.plan.Relation.Distinct == nil {
		return s.options.scan(ctx, source, read)
	}
	return s.distinct(ctx, source, read)
}

func (s *ranges) trainingSource(at plan.Range) plan.Source {
	source := s.plan.Training(at)
	if s.window > 0 { // the next window is decoded while one is given
		source.BatchRows, source.Ahead = int(min(s.plan.Rows.ShuffleWindow, longestWhole)), s.window
	}
	if s.counting && len(s.staging) == 0 {
		source.Checked = nil // where rows lie decides on nothing; the stream looks at it
	}
	return source
}
