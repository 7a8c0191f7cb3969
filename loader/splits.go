package loader

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// splits opens the pieces of a plan for one stream: scan, join, and the
// staging classes that pieces share. It is used by one goroutine.
type splits struct {
	ctx     context.Context //nolint:containedctx // of the stream: what is built ahead belongs to no call
	options Options
	plan    *plan.Plan
	columns []lane.Column    // where each output lies in a joined batch
	read    []catalog.Field  // what is read of the training table
	kept    []int            // positions in read of what goes on into the stream
	levels  []*level         // of the staging tables that are read
	held    map[int][]*class // per lane that has a piece open: its class of each level
	ahead   []*class         // those of the next piece of lane aheadOf, until it is opened
	aheadOf int
	joins   map[int]*joiner.Reader
	counts  []joiner.Counts // per level, of the pieces that were closed
}

// level is one staging table as a stream reads it.
type level struct {
	staging int             // index in the plan
	read    []catalog.Field // key columns, then what the stream shows
	kept    []int           // positions in read of what the stream shows
	fields  []arrow.Field   // the same, as Arrow fields
	key     []int           // positions of the key in splits.read
	rule    joiner.Rule
	classes map[int]*class // those that some lane holds
}

func newSplits(ctx context.Context, options Options, p *plan.Plan, outputs []resolve.Output) *splits {
	s := &splits{ctx: ctx, options: options, plan: p, held: map[int][]*class{}, joins: map[int]*joiner.Reader{}}
	for _, o := range outputs {
		if o.Level == resolve.TrainingLevel {
			s.kept = appendNew(s.kept, s.position(o.Field))
		}
	}
	for i := range p.Relation.Staging {
		if l := s.newLevel(i, outputs); l != nil {
			s.levels = append(s.levels, l)
		}
	}
	s.counts = make([]joiner.Counts, len(s.levels))
	for _, o := range outputs {
		s.columns = append(s.columns, s.column(o))
	}
	return s
}

// position returns where a training column stands in what is read, adding it
// if it is new.
func (s *splits) position(f catalog.Field) int {
	i := slices.IndexFunc(s.read, func(r catalog.Field) bool { return r.ID == f.ID })
	if i < 0 {
		s.read = append(s.read, f)
		i = len(s.read) - 1
	}
	return i
}

func appendNew(list []int, i int) []int {
	if slices.Contains(list, i) {
		return list
	}
	return append(list, i)
}

// newLevel returns nil for a left table of which nothing is asked and whose
// rules cannot fail: it is not read.
func (s *splits) newLevel(staging int, outputs []resolve.Output) *level {
	r := s.plan.Relation.Staging[staging]
	l := &level{staging: staging, classes: map[int]*class{}, rule: joiner.Rule{
		Name: r.Name, MissingError: r.Missing == dataset.MissingError,
		Kind: map[dataset.Join]joiner.Kind{
			dataset.Left: joiner.Left, dataset.Inner: joiner.Inner,
		}[r.Join],
		Duplicates: map[dataset.Duplicates]joiner.Duplicates{
			dataset.DuplicatesError: joiner.DuplicatesError,
			dataset.DuplicatesFirst: joiner.DuplicatesFirst,
			dataset.DuplicatesLast:  joiner.DuplicatesLast,
		}[r.Duplicates],
	}}
	for _, k := range r.Keys {
		l.read = append(l.read, k.Staging)
	}
	for _, o := range outputs {
		if o.Level != staging || slices.ContainsFunc(l.read, func(f catalog.Field) bool { return f.ID == o.Field.ID }) {
			continue
		}
		l.kept = append(l.kept, len(l.read))
		l.read = append(l.read, o.Field)
		l.fields = append(l.fields, arrow.Field{Name: o.Field.Name, Type: o.Field.Type, Nullable: true})
	}
	if len(l.kept) == 0 && l.rule.Kind == joiner.Left && !l.rule.MissingError && l.rule.Duplicates != joiner.DuplicatesError {
		return nil
	}
	for _, k := range r.Keys {
		l.key = append(l.key, s.position(k.Training))
	}
	return l
}

// column says where an output lies in a joined batch: training columns first,
// then one dictionary per level.
func (s *splits) column(o resolve.Output) lane.Column {
	if o.Level == resolve.TrainingLevel {
		return lane.Column{Index: slices.Index(s.kept, s.position(o.Field)), Field: lane.Plain}
	}
	i := slices.IndexFunc(s.levels, func(l *level) bool { return l.staging == o.Level })
	field := slices.IndexFunc(s.levels[i].kept, func(k int) bool { return s.levels[i].read[k].ID == o.Field.ID })
	return lane.Column{Index: len(s.kept) + i, Field: field}
}

// open opens one piece of a lane: the lane.Open of the stream.
func (s *splits) open(ctx context.Context, number, index int, skip int64) (array.RecordReader, error) {
	piece := s.plan.Lanes[number].Pieces[index]
	if s.plan.Inexact == "" {
		piece.From, skip = piece.From+skip, 0
	}
	s.hold(number, s.plan.Splits[piece.Split])
	source := s.plan.Training(piece)
	var rows Rows
	training := joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			var err error
			rows, err = s.options.Scan(ctx, source, s.read)
			return rows, err
		},
		Columns: s.kept,
		File:    func(row int64) string { return rows.FileOf(row) },
	}
	probes := make([]joiner.Probe, len(s.levels))
	for i, l := range s.levels {
		held := s.held[number][i]
		probes[i] = joiner.Probe{Rule: l.rule, Key: l.key, Columns: l.fields, Side: held.side}
	}
	joined, err := joiner.Join(ctx, training, probes, joiner.Options{Memory: s.options.Memory, Budget: s.options.Budget})
	if err != nil {
		return nil, err
	}
	return s.track(number, index, joined, skip), nil
}

// hold takes the classes that a split needs for a lane, before it drops those
// of the lane's last split: a class that both need stays as it is.
func (s *splits) hold(number int, split plan.Split) {
	last := s.held[number]
	s.held[number] = nil
	for _, l := range s.levels {
		s.held[number] = append(s.held[number], l.hold(s, split.Classes[l.staging]))
	}
	drop(last)
	if number == s.aheadOf {
		drop(s.ahead)
		s.ahead = nil
	}
}

// track gives the joined rows of a piece after the first skip, and adds up
// what its join met when it is released.
func (s *splits) track(number, index int, joined *joiner.Reader, skip int64) array.RecordReader {
	s.joins[number] = joined
	first := true
	next := func() (arrow.RecordBatch, error) {
		for joined.Next() {
			b := joined.RecordBatch()
			if first {
				first = false
				s.lookAhead(number, index+1)
			}
			if b.NumRows() <= skip {
				skip -= b.NumRows()
				continue
			}
			from := skip
			skip = 0
			return b.NewSlice(from, b.NumRows()), nil
		}
		return nil, joined.Err()
	}
	release := func() {
		s.count(joined)
		delete(s.joins, number)
		joined.Release()
		if index == len(s.plan.Lanes[number].Pieces)-1 {
			drop(s.held[number])
			delete(s.held, number)
		}
	}
	return batch.FromFunc(joined.Schema(), next, release)
}

func (s *splits) count(joined *joiner.Reader) {
	for i, c := range joined.Counts() {
		s.counts[i].Add(c)
	}
}

// report returns the counts of each level that was read, by name: of the
// pieces that were closed and of those still open.
func (s *splits) report() map[string]joiner.Counts {
	counts := slices.Clone(s.counts)
	for _, joined := range s.joins {
		for i, c := range joined.Counts() {
			counts[i].Add(c)
		}
	}
	byName := make(map[string]joiner.Counts, len(counts))
	for i, l := range s.levels {
		byName[l.rule.Name] = counts[i]
	}
	return byName
}

// smallClass bounds the classes that are read before they are needed, in bytes
// of files: their rows must fit beside those of the open pieces.
const smallClass = 16 << 20

// lookAhead begins to build the classes of a lane's next piece, so that the
// stream does not stop while a staging side is read. One piece is built ahead
// at a time, of all lanes, and stays until its lane opens it: nothing is read
// in vain. Only classes that no lane holds are, where memory is plentiful.
func (s *splits) lookAhead(number, index int) {
	pieces := s.plan.Lanes[number].Pieces
	if index >= len(pieces) || len(s.ahead) > 0 {
		return
	}
	s.aheadOf = number
	split := s.plan.Splits[pieces[index].Split]
	for _, l := range s.levels {
		n := split.Classes[l.staging]
		if l.classes[n] == nil && s.small(l.staging, n) {
			c := l.hold(s, n)
			c.prepare(s.ctx)
			s.ahead = append(s.ahead, c)
		}
	}
}

// small says whether a class may be read ahead.
func (s *splits) small(staging, number int) bool {
	size := int64(0)
	for _, f := range s.plan.Class(staging, number).Files {
		size += f.File.Bytes
	}
	b := s.options.Budget
	return size <= smallClass && (b == nil || b.Used()+8*size < b.Limit()/2)
}

// close drops every class that is still held, and waits for those that are
// being built.
func (s *splits) close() {
	drop(s.ahead)
	s.ahead = nil
	for number, classes := range s.held {
		drop(classes)
		delete(s.held, number)
	}
}
