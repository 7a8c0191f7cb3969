package stream

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// Check checks the shard, the batch size, the tail and the cursors of a reading against its plan.
// If the shard's index is dataset.AllShards, it checks every shard. maxBatchBytes is the maximum
// size of a batch; 0: no limit.
func Check(s ReadSpec, maxBatchBytes int64) error {
	for i, c := range s.Reading.Cursor {
		if err := s.Plan.CheckCursor(i, c); err != nil {
			return err
		}
	}
	if err := s.fits(maxBatchBytes); err != nil {
		return err
	}
	shards := []int{s.Reading.Shard.Index}
	if s.Reading.Shard.Index == dataset.AllShards {
		shards = shards[:0]
		for i := range s.Reading.Shard.Of {
			shards = append(shards, i)
		}
	}
	for _, i := range shards {
		s.Reading.Shard.Index = i
		if _, err := begin(s); err != nil {
			return err
		}
	}
	return nil
}

// shard holds the lanes that a stream reads, and the positions at which the stream begins.
type shard struct {
	ReadSpec
	lanes []lane.Lane
	step  int64
	rows  int64 // how many rows, or requests if batches consist of requests, each lane returned before the stream
	// runs has the runs of each lane, by the lane's number, if rows are permuted within windows.
	// Then a lane.Position counts runs instead of ranges. Otherwise runs is nil.
	runs   map[int][]plan.Run
	uneven bool  // some lane may have returned another number than rows, see dataset.Cursor
	q      int64 // rows per lane and step; requests, if batches consist of requests
	// counts is the number of rows of each lane; nil if unknown.
	counts *dataset.Counts
}

// begin checks a reading of one shard against its plan, and determines where the reading starts.
func begin(of ReadSpec) (shard, error) {
	p, r, batchRows := of.Plan, of.Reading, of.BatchRows
	l := len(p.Lanes)
	switch {
	case r.Every.Of < 0 || r.Every.Step < 0 || r.Every.Step >= max(1, r.Every.Of):
		return shard{}, fault.InvalidField("every", "step %d is outside of the %d that take turns", r.Every.Step, r.Every.Of)
	case r.Shard.Of < 1 || r.Shard.Index < 0 || r.Shard.Index >= r.Shard.Of:
		return shard{}, fault.InvalidField("shard", "shard %d is outside of %s", r.Shard.Index, fault.Count(r.Shard.Of, "shard"))
	case l%r.Shard.Of != 0:
		return shard{}, fault.InvalidField("shard.of", "%d shards do not divide %s", r.Shard.Of, fault.Count(l, "lane")).
			WithRemedy("set lanes to a multiple of the number of shards, such as %d", (l/r.Shard.Of+1)*r.Shard.Of)
	}
	perStep := l / r.Shard.Of
	if batchRows < 1 || batchRows%perStep != 0 {
		by := sizedBy(r)
		return shard{}, fault.InvalidField(by.Field, "%d cannot be divided among the %d lanes of a shard", batchRows, perStep).
			WithRemedy("use a multiple of %d, such as %d", by.Batches*perStep, by.Batches*max(1, batchRows/perStep)*perStep)
	}
	counts, err := Known(p, r, of.Counts)
	if err != nil {
		return shard{}, err
	}
	if counts != nil && len(counts.Lanes) != l {
		return shard{}, fault.New(fault.Internal, "the rows of %d lanes were counted, the plan has %d", len(counts.Lanes), l)
	}
	s := shard{ReadSpec: of, q: int64(batchRows / perStep), counts: counts}
	for i := r.Shard.Index; i < l; i += r.Shard.Of {
		s.add(i)
	}
	if err := s.resume(r.Cursor); err != nil {
		return shard{}, err
	}
	if s.uneven && r.Tail.Drops() {
		return shard{}, fault.InvalidField("tail", "drop takes the same number of rows from every lane, but before this cursor the lanes returned different or unknown numbers of rows").
			WithRemedy("use tail: keep, or a cursor of a stream without limit and of endpoints: shards")
	}
	return s, s.within(of.Part, len(r.Cursor) > 0)
}

// add adds a lane of the plan.
func (s *shard) add(number int) {
	p, l := s.Plan, lane.Lane{Number: number}
	known := func(rows int64) int64 {
		if p.Inexact != "" {
			return lane.Unknown
		}
		return rows
	}
	if p.Rows.ShuffleWindow == 0 {
		for _, r := range p.Lanes[number].Ranges {
			l.Ranges = append(l.Ranges, known(r.To-r.From))
		}
		s.lanes = append(s.lanes, l)
		return
	}
	if s.runs == nil {
		s.runs = map[int][]plan.Run{}
	}
	runs := p.Runs(number)
	s.runs[number] = runs
	for i := range runs {
		l.Ranges, l.Windows = append(l.Ranges, known(runs[i].Rows)), append(l.Windows, &runs[i])
	}
	s.lanes = append(s.lanes, l)
}

// rangeOf returns the index of the first range of a lane's sequence, given the sequence's number.
func (s *shard) rangeOf(l lane.Lane, sequence int) int {
	runs, permuted := s.runs[l.Number]
	switch {
	case !permuted:
		return sequence
	case sequence < len(runs):
		return runs[sequence].First
	case sequence == 0:
		return 0
	}
	last := runs[len(runs)-1]
	return last.First + last.Ranges()
}

// sequenceOf returns the number of the sequence of a lane that begins with the given range, or
// false if no sequence does.
func (s *shard) sequenceOf(l lane.Lane, index int) (int, bool) {
	for sequence := range len(l.Ranges) + 1 {
		if s.rangeOf(l, sequence) == index {
			return sequence, true
		}
	}
	return 0, false
}

// resume moves the lanes to the positions of the cursors.
func (s *shard) resume(cursors dataset.Cursors) error {
	if len(cursors) == 0 {
		return nil
	}
	merged, err := cursors.Merge()
	if err != nil {
		return err
	}
	at := map[int]dataset.Position{}
	for _, position := range merged.At {
		at[position.Lane] = position
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		position, ok := at[l.Number]
		if !ok {
			return fault.InvalidField("cursor", "the cursors do not cover lane %d, which this shard reads", l.Number).
				WithRemedy("give the cursors of all shards of the run as a list")
		}
		sequence, ok := s.sequenceOf(*l, position.Range)
		if !ok || !stands(*l, lane.Position{Range: sequence, Window: position.Window, Row: position.Row}) {
			return fault.InvalidField("cursor.at", "lane %d has no split %d, window %d, row %d", position.Lane, position.Range, position.Window, position.Row)
		}
		l.Start = lane.Position{Range: sequence, Window: position.Window, Row: position.Row}
	}
	if err := s.align(cursors); err != nil {
		return err
	}
	if err := checkSteps(s.Plan, cursors); err != nil {
		return err
	}
	return s.checkCounts()
}

// checkCounts checks that the positions of the lanes agree with the number of rows that the lanes
// have returned, and with the counted rows.
func (s *shard) checkCounts() error {
	switch {
	case s.uneven:
		return nil
	case s.Plan.Inexact == "":
		return s.checkRows()
	case s.counts == nil:
		return nil
	}
	for _, l := range s.lanes {
		rows := s.counts.Lanes[l.Number]
		if ended := l.Start.Range == len(l.Ranges); ended && rows > s.rows || !ended && rows < s.rows {
			return differs(l.Number, rows)
		}
	}
	return nil
}

// checkRows checks that the lanes' positions are after as many rows as the cursor says were
// returned, if the plan knows the rows of each range.
func (s *shard) checkRows() error {
	for _, l := range s.lanes {
		given, ended := s.Plan.RowsBefore(s.position(l, l.Start)), l.Start.Range == len(l.Ranges)
		if given > s.rows || !ended && given < s.rows {
			return fault.InvalidField("cursor.rows", "each lane returned %s, but the position of lane %d is after %d", fault.Count(s.rows, "row"), l.Number, given).
				WithRemedy("resume with the unchanged cursor")
		}
	}
	return nil
}

// differs returns the error for a lane that does not have as many rows as were counted.
func differs(number int, counted int64) error {
	return fault.InvalidField("cursor.counted", "lane %d does not have the %d rows that were counted", number, counted).
		WithRemedy("make sure that no process replaces files of the tables; start without the cursor, so that the rows are counted again")
}

// stands reports whether a position exists in its lane.
func stands(l lane.Lane, at lane.Position) bool {
	switch {
	case at.Window < 0 || at.Row < 0:
		return false
	case at.Range == len(l.Ranges):
		return at.Window == 0 && at.Row == 0
	case l.Windows == nil:
		return at.Window == 0 && (l.Ranges[at.Range] == lane.Unknown || at.Row <= l.Ranges[at.Range])
	}
	windows := l.Windows[at.Range].(*plan.Run)
	if at.Window >= windows.Windows {
		return false
	}
	return l.Ranges[at.Range] == lane.Unknown || at.Row <= windows.RowsBefore(at.Window+1)-windows.RowsBefore(at.Window)
}

// align checks that all cursors of a query have returned the same number of rows per lane. The
// cursor of a shard whose lanes have all ended may have returned fewer.
func (s *shard) align(cursors dataset.Cursors) error {
	furthest := slices.MaxFunc(cursors, func(a, b dataset.Cursor) int {
		return cmp.Or(cmp.Compare(a.Given, b.Given), cmp.Compare(a.Step, b.Step))
	})
	s.step, s.rows = furthest.Step, furthest.Given
	for i, c := range cursors {
		s.uneven = s.uneven || c.Uneven
		if c.Given == furthest.Given {
			continue
		}
		for _, position := range c.At {
			if position.Range < len(s.Plan.Lanes[position.Lane].Ranges) {
				return fault.InvalidField(fmt.Sprintf("cursor[%d]", i), "it is at %s per lane, another at %d", fault.Count(c.Given, "row"), furthest.Given).
					WithRemedy("give the cursors that all shards saved after the same step")
			}
		}
	}
	return nil
}
