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
	options Options
	plan    *plan.Plan
	columns []lane.Column    // where each output lies in a joined batch
	read    []catalog.Field  // what is read of the training table
	kept    []int            // positions in read of what goes on into the stream
	levels  []*level         // of the staging tables that are read
	held    map[int][]*class // per lane that has a piece open: its class of each level
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

func newSplits(options Options, p *plan.Plan, outputs []resolve.Output) *splits {
	s := &splits{options: options, plan: p, held: map[int][]*class{}, joins: map[int]*joiner.Reader{}}
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
		Name: r.Name, Inner: r.Join == dataset.Inner, MissingError: r.Missing == dataset.MissingError,
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
	if len(l.kept) == 0 && !l.rule.Inner && !l.rule.MissingError && l.rule.Duplicates != joiner.DuplicatesError {
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
}

func drop(classes []*class) {
	for _, c := range classes {
		c.drop()
	}
}

// track gives the joined rows of a piece after the first skip, and adds up
// what its join met when it is released.
func (s *splits) track(number, index int, joined *joiner.Reader, skip int64) array.RecordReader {
	s.joins[number] = joined
	next := func() (arrow.RecordBatch, error) {
		for joined.Next() {
			b := joined.RecordBatch()
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
		s.counts[i] = add(s.counts[i], c)
	}
}

func add(a, b joiner.Counts) joiner.Counts {
	return joiner.Counts{
		Rows: a.Rows + b.Rows, Matched: a.Matched + b.Matched, Missing: a.Missing + b.Missing,
		NullKeys: a.NullKeys + b.NullKeys, Duplicates: a.Duplicates + b.Duplicates,
	}
}

// report returns the counts of each level that was read, by name: of the
// pieces that were closed and of those still open.
func (s *splits) report() map[string]joiner.Counts {
	counts := slices.Clone(s.counts)
	for _, joined := range s.joins {
		for i, c := range joined.Counts() {
			counts[i] = add(counts[i], c)
		}
	}
	byName := make(map[string]joiner.Counts, len(counts))
	for i, l := range s.levels {
		byName[l.rule.Name] = counts[i]
	}
	return byName
}

// close drops every class that is still held.
func (s *splits) close() {
	for number, classes := range s.held {
		drop(classes)
		delete(s.held, number)
	}
}

// class is the staging side of one residue class, while some lane of the
// stream holds it. It is read and indexed once, when the first row asks.
type class struct {
	number int
	level  *level
	source plan.Source
	scan   Scan
	join   joiner.Options
	holds  int
	built  *joiner.Side
}

// hold returns a class with one more hold on it.
func (l *level) hold(s *splits, number int) *class {
	c := l.classes[number]
	if c == nil {
		c = &class{
			number: number, level: l, source: s.plan.Class(l.staging, number), scan: s.options.Scan,
			join: joiner.Options{Memory: s.options.Memory, Budget: s.options.Budget},
		}
		l.classes[number] = c
	}
	c.holds++
	return c
}

// drop gives one hold back; the last one frees the side.
func (c *class) drop() {
	c.holds--
	if c.holds > 0 {
		return
	}
	delete(c.level.classes, c.number)
	if c.built != nil {
		c.built.Release()
		c.built = nil
	}
}

// side returns the indexed rows of the class with a reference of the caller's.
func (c *class) side(ctx context.Context) (*joiner.Side, error) {
	if c.built == nil {
		built, err := c.build(ctx)
		if err != nil {
			return nil, err
		}
		c.built = built
	}
	c.built.Retain()
	return c.built, nil
}

func (c *class) build(ctx context.Context) (*joiner.Side, error) {
	var rows Rows
	key := make([]int, len(c.level.key))
	for i := range key {
		key[i] = i
	}
	return joiner.Build(ctx, joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			var err error
			rows, err = c.scan(ctx, c.source, c.level.read)
			return rows, err
		},
		Key:     key,
		Columns: c.level.kept,
		File:    func(row int64) string { return rows.FileOf(row) },
	}, c.level.rule, c.join)
}
