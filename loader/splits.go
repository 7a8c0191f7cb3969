package loader

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// splits opens the pieces of a plan for one stream: scan, join, filter, and
// the staging classes that pieces share. It is used by one goroutine.
type splits struct {
	ctx     context.Context //nolint:containedctx // of the stream: what is built ahead belongs to no call
	options Options
	plan    *plan.Plan
	sides   *sides
	columns []lane.Column   // where each output lies in a joined batch
	read    columns         // what is read of the training table
	kept    []placed        // what of it goes on into the joined batches
	levels  []*level        // of the staging tables that are read
	after   *after          // nil: the query's filter names no joined column
	held    map[int][]*grip // per lane that has a piece open: its class of each level
	ahead   []*grip         // those of the next piece of lane aheadOf, until it is opened
	aheadOf int
	pieces  map[int]*piece  // that are open, by lane
	counts  []joiner.Counts // per level, of the pieces that were closed
}

// placed is a training column of the joined batches. Overlays replace it
// there, so that an overlaid column stands apart from the stored one.
type placed struct {
	at       int // position in splits.read
	overlaid bool
}

func newSplits(ctx context.Context, l *Loader, p *plan.Plan, outputs []resolve.Output, lanes []lane.Lane) (*splits, error) {
	s := &splits{
		ctx: ctx, options: l.options, plan: p, sides: l.sides, held: map[int][]*grip{}, pieces: map[int]*piece{},
	}
	wanted := slices.Concat(outputs, p.PostJoinColumns)
	for _, o := range wanted {
		if o.Table == resolve.TrainingTable {
			s.place(o)
		}
	}
	for i := range p.Relation.Staging {
		l, err := newLevel(s, i, wanted)
		if err != nil {
			return nil, err
		}
		if l != nil {
			s.levels = append(s.levels, l)
		}
	}
	for _, l := range lanes {
		for _, at := range p.Lanes[l.Number].Ranges[l.Start.Range:] {
			for _, level := range s.levels {
				level.left[p.Splits[at.Split].Groups[level.staging]]++
			}
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.counts = make([]joiner.Counts, len(s.levels))
	s.columns = s.locate(outputs)
	if p.PostJoin != nil {
		s.after = &after{filter: p.PostJoin, schema: resolve.Schema(p.PostJoinColumns), columns: s.locate(p.PostJoinColumns), memory: s.options.Memory}
	}
	return s, nil
}

// check is Internal if the stream would read a column that planning did not
// look at: an Open that names more columns than the plan was made for.
func (s *splits) check() error {
	training := plan.Source{Table: s.plan.Relation.Training, Planned: s.plan.Planned.Training}
	for _, c := range s.read {
		if err := training.Check(c.field); err != nil {
			return err
		}
	}
	for _, l := range s.levels {
		source := plan.Source{Table: l.bound.Pinned, Planned: s.plan.Planned.Staging[l.staging]}
		for _, c := range l.read {
			if err := source.Check(c.field); err != nil {
				return err
			}
		}
	}
	return nil
}

// place returns where a training output stands among the training columns of
// the joined batches, adding it if it is new.
func (s *splits) place(o resolve.Output) int {
	one := placed{at: s.read.add(column{field: o.Field, shapes: o.Shapes}), overlaid: len(o.Overlays) > 0}
	i := slices.Index(s.kept, one)
	if i < 0 {
		s.kept = append(s.kept, one)
		i = len(s.kept) - 1
	}
	return i
}

// locate says where outputs lie in a joined batch: training columns first,
// then one dictionary per level.
func (s *splits) locate(outputs []resolve.Output) []lane.Column {
	at := make([]lane.Column, len(outputs))
	for i, o := range outputs {
		if o.Table == resolve.TrainingTable {
			at[i] = lane.Column{Index: s.place(o), Field: lane.Plain}
			continue
		}
		number := slices.IndexFunc(s.levels, func(l *level) bool { return l.staging == o.Table })
		l := s.levels[number]
		field := len(l.shown) // whether it matched
		if !o.Matched {
			field = l.field(column{field: o.Field, shapes: o.Shapes}, o.Default)
		}
		at[i] = lane.Column{Index: len(s.kept) + number, Field: field}
	}
	return at
}

// cut says where the columns of the stream's batches lie in joined ones: each
// by itself, or those of a staging table as one level.
func (s *splits) cut(indexed bool) (columns []lane.Column, levels []lane.IndexedColumn) {
	if !indexed {
		return s.columns, nil
	}
	for _, c := range s.columns {
		switch last := len(levels) - 1; {
		case c.Field == lane.Plain:
			columns = append(columns, c)
		case last >= 0 && levels[last].Index == c.Index:
			levels[last].Fields = append(levels[last].Fields, c.Field)
		default:
			levels = append(levels, lane.IndexedColumn{Index: c.Index, Fields: []int{c.Field}})
		}
	}
	return columns, levels
}

// name returns the name of the staging table that a level is of.
func (s *splits) name(l lane.IndexedColumn) string { return s.levels[l.Index-len(s.kept)].rule.Name }

// open opens one piece of a lane: the lane.Open of the stream.
func (s *splits) open(ctx context.Context, number, index int, skip int64) (array.RecordReader, error) {
	at := s.plan.Lanes[number].Ranges[index]
	if s.plan.Inexact == "" {
		at.From, skip = at.From+skip, 0
	}
	s.hold(number, at)
	kept := make([]int, len(s.kept))
	for i, k := range s.kept {
		kept[i] = k.at
	}
	var rows Rows
	training := joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			var err error
			rows, err = s.training(ctx, at, s.read)
			return rows, err
		},
		Columns: kept,
		File:    func(row int64) string { return rows.FileOf(row) },
	}
	probes := make([]joiner.Probe, len(s.levels))
	for i, l := range s.levels {
		held := s.held[number][i]
		probes[i] = joiner.Probe{
			Rule: l.rule, Key: l.key, Columns: l.fields(), Matched: l.recipe.Matched,
			BuildSide: held.side,
		}
	}
	joined, err := joiner.Join(ctx, training, probes, s.joining())
	if err != nil {
		return nil, err
	}
	p := &piece{splits: s, lane: number, index: index, rows: at.To - at.From, joined: joined, skip: skip}
	s.pieces[number] = p
	return batch.FromFunc(joined.Schema(), p.next, p.release), nil
}

// joining says what the joiner works with.
func (s *splits) joining() joiner.Options {
	return joiner.Options{Memory: s.options.Memory, Budget: s.options.Budget}
}

// training opens columns of the training rows of a piece that reach the join.
func (s *splits) training(ctx context.Context, at plan.Range, read columns) (Rows, error) {
	source := s.plan.Training(at)
	if s.plan.Relation.Distinct == nil {
		return s.options.scan(ctx, source, read)
	}
	return s.distinct(ctx, source, read)
}

// hold takes the classes that a piece needs for a lane, before it drops those
// of the lane's last piece: a class that both need stays as it is.
func (s *splits) hold(number int, at plan.Range) {
	last := s.held[number]
	s.held[number] = nil
	for _, l := range s.levels {
		l.left[s.plan.Splits[at.Split].Groups[l.staging]]--
		s.held[number] = append(s.held[number], s.adopt(number, l, at))
	}
	drop(last)
	if number == s.aheadOf {
		s.dropAhead()
	}
}

// adopt takes what was built ahead for a piece, or else holds the class anew.
func (s *splits) adopt(number int, l *level, at plan.Range) *grip {
	if number == s.aheadOf {
		for i, g := range s.ahead {
			if g.class.level == l && g.at == at {
				s.ahead = slices.Delete(s.ahead, i, i+1)
				return g
			}
		}
	}
	return l.hold(s, at)
}

// piece is one piece of a lane while it is open.
type piece struct {
	splits *splits
	lane   int
	index  int
	rows   int64 // training rows as planned
	joined *joiner.Reader
	skip   int64 // rows of the final sequence that were given before
	begun  bool
}

// next gives the rows of the piece's final sequence after the first skip.
func (p *piece) next() (arrow.RecordBatch, error) {
	for p.joined.Next() {
		if !p.begun {
			p.begun = true
			p.splits.lookAhead(p.lane, p.index+1)
		}
		b, err := p.final()
		if err != nil {
			return nil, err
		}
		if err := p.enough(false); err != nil {
			b.Release()
			return nil, err
		}
		if b.NumRows() > p.skip {
			defer b.Release()
			from := p.skip
			p.skip = 0
			return b.NewSlice(from, b.NumRows()), nil
		}
		p.skip -= b.NumRows()
		b.Release()
	}
	if err := p.joined.Err(); err != nil {
		return nil, err
	}
	return nil, p.enough(true)
}

// final returns the rows of the joined batch that pass the query's filter on
// joined columns.
func (p *piece) final() (arrow.RecordBatch, error) {
	b := p.joined.RecordBatch()
	if p.splits.after == nil {
		b.Retain()
		return b, nil
	}
	return p.splits.after.keep(b)
}

// release closes the piece, whether it was read to its end or not.
func (p *piece) release() {
	s := p.splits
	for i, c := range p.joined.Counts() {
		s.counts[i].Add(c)
	}
	delete(s.pieces, p.lane)
	p.joined.Release()
	if p.index == len(s.plan.Lanes[p.lane].Ranges)-1 {
		drop(s.held[p.lane])
		delete(s.held, p.lane)
	}
}

// smallClass bounds the classes that are read before they are needed, in bytes
// of files: their rows must fit beside those of the open pieces.
const smallClass = 16 << 20

// lookAhead begins to build the classes of a lane's next piece, so that the
// stream does not stop while a staging side is read. One piece is built ahead
// at a time, of all lanes, and stays until its lane opens it: nothing is read
// in vain. Only classes that no lane holds are, where memory is plentiful.
func (s *splits) lookAhead(number, index int) {
	pieces := s.plan.Lanes[number].Ranges
	if index >= len(pieces) || len(s.ahead) > 0 {
		return
	}
	s.aheadOf = number
	split := s.plan.Splits[pieces[index].Split]
	for _, l := range s.levels {
		n := split.Groups[l.staging]
		if !l.holds(n) && s.small(l.staging, n) {
			g := l.hold(s, pieces[index])
			g.prepare(s.ctx)
			s.ahead = append(s.ahead, g)
		}
	}
}

// dropAhead gives up what is built ahead, and says whether there was something.
func (s *splits) dropAhead() bool {
	ahead := s.ahead
	s.ahead = nil
	drop(ahead)
	return len(ahead) > 0
}

// giveWay ends what is built ahead for a piece to come, waits for what still is
// for open ones, and says whether there was something: what a row asks for
// comes first.
func (s *splits) giveWay() bool {
	some := s.dropAhead()
	for _, held := range s.held {
		for _, g := range held {
			some = some || g.pending != nil
			g.settle(false)
		}
	}
	return some
}

// small says whether a class may be read ahead.
func (s *splits) small(staging, number int) bool {
	size := s.plan.Staging[staging].Group(number).Bytes
	b := s.options.Budget
	return size <= smallClass && (b == nil || b.Used()+8*size < b.Limit()/2)
}

// close drops every class that is still held, and waits for those that are
// being built.
func (s *splits) close() {
	s.dropAhead()
	for number, classes := range s.held {
		drop(classes)
		delete(s.held, number)
	}
	for _, l := range s.levels {
		l.close()
	}
}
