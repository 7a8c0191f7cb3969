package loader

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// pinOf returns the pin of a query whose defaults are set: the query's own pin merged
// with that of its cursor, which must agree. The pin has an entry for every staging
// table of the dataset; that entry, like that of the training table, is zero if the
// table is not pinned. The result omits tables that are only in the cursor's pin, since
// they are no longer in the dataset: samePlan refuses the cursor if such a table
// affected the rows.
func pinOf(d dataset.Dataset, q dataset.Query) (dataset.Pin, error) {
	if len(q.Cursor) > 0 {
		if err := oneRun(q.Cursor); err != nil {
			return dataset.Pin{}, err
		}
		if differs := dataset.PinDifferences(q.Pin, q.Cursor[0].Pin); len(differs) > 0 {
			e := fault.InvalidField("snapshots", "the cursor was made at other snapshots: %s", strings.Join(differs, ", "))
			e.Differs = differs
			return dataset.Pin{}, e.WithRemedy("leave snapshots out: the pin comes from the cursor")
		}
	}
	out := dataset.Pin{Training: q.Pin.Training, Staging: map[string]dataset.TablePin{}}
	var names []string
	for _, s := range d.Staging {
		names = append(names, s.Name)
		out.Staging[s.Name] = q.Pin.Staging[s.Name]
	}
	for _, name := range slices.Sorted(maps.Keys(q.Pin.Staging)) {
		if !slices.Contains(names, name) && !pinnedBy(q.Cursor, name) {
			return dataset.Pin{}, fault.Fields([]fault.Field{{
				Field: "snapshots.staging", Message: fmt.Sprintf("the dataset has no staging table %q", name), Nearest: fault.Nearest(name, names),
			}})
		}
	}
	return out, nil
}

// pinnedBy reports whether cursors of one plan pin a staging table.
func pinnedBy(cursors dataset.Cursors, name string) bool {
	if len(cursors) == 0 {
		return false
	}
	_, ok := cursors[0].Pin.Staging[name]
	return ok
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// oneRun refuses cursors of different plans, and names each field that differs.
func oneRun(cursors dataset.Cursors) error {
	first := cursors[0]
	for i, c := range cursors[1:] {
		differs := planDifferences(c, first, first.Plan)
		if len(differs) == 0 {
			continue
		}
		e := fault.InvalidField(fmt.Sprintf("cursor[%d]", i+1), "the cursor is of another run than cursor[0]; what differs: %s", strings.Join(differs, ", "))
		e.Differs = differs
		return e.WithRemedy("resume with the cursors of one run; ranks that plan for themselves must name the same snapshots, seed and filter")
	}
	return nil
}

// planDifferences lists each field in which a cursor differs from one of a plan. If
// only the plan's id differs, it lists that: the same query then produced other splits.
func planDifferences(c, of dataset.Cursor, id string) []string {
	differs := dataset.Differences(c, of)
	if len(differs) == 0 && c.Plan != id {
		differs = []string{fmt.Sprintf("plan (%s, not %s)", c.Plan, id)}
	}
	return differs
}

// check checks the shard, the batch size, the tail and the cursors of a query against
// its plan.
func (l *Loader) check(p *plan.Plan, q dataset.Query, outputs []resolve.Output) error {
	for i, c := range q.Cursor {
		if err := samePlan(p, i, c); err != nil {
			return err
		}
	}
	r := StreamOptions{Reading: q.Reading}
	if err := fits(p, r, outputs, l.options.MaxBatchBytes); err != nil {
		return err
	}
	rows := batchRows(p, r, outputs)
	shards := []int{q.Shard.Index}
	if q.Shard.Index == dataset.AllShards {
		shards = shards[:0]
		for i := range q.Shard.Of {
			shards = append(shards, i)
		}
	}
	for _, i := range shards {
		r.Shard.Index = i
		if _, err := begin(p, r, rows); err != nil {
			return err
		}
	}
	return nil
}

// samePlan refuses a cursor of another plan, and names each field that differs.
func samePlan(p *plan.Plan, number int, c dataset.Cursor) error {
	differs := rowsDifferences(p, c)
	switch {
	case len(differs) == 0:
		return nil
	case len(differs) == 1 && c.Filter.String() != p.Rows.Filter.String():
		return otherFilter(p.Rows.Filter.String(), c.Filter.String(), differs)
	}
	e := fault.InvalidField(fmt.Sprintf("cursor[%d]", number), "the cursor belongs to another plan; what differs: %s", strings.Join(differs, ", "))
	e.Differs = differs
	if c.Algorithm != plan.Algorithm {
		return e.WithRemedy("resume on a server that plans by algorithm %d, or start without the cursor", c.Algorithm)
	}
	return e.WithRemedy("resume with the query that the cursor came from, or start without it")
}

// rowsDifferences lists each field in which a cursor differs from those of a plan. A
// staging table that is in only one of the two pins does not affect the rows if the
// digests of the datasets agree; otherwise the list names such tables.
func rowsDifferences(p *plan.Plan, c dataset.Cursor) []string {
	of := p.Cursor()
	had, have := slices.Sorted(maps.Keys(c.Pin.Staging)), slices.Sorted(maps.Keys(of.Pin.Staging))
	c.Pin.Staging, of.Pin.Staging = common(c.Pin.Staging, of.Pin.Staging), common(of.Pin.Staging, c.Pin.Staging)
	differs := planDifferences(c, of, p.ID)
	if c.Dataset != of.Dataset && !slices.Equal(had, have) {
		differs = append(differs, fmt.Sprintf("staging (%s, not %s)", listed(had), listed(have)))
	}
	return differs
}

// common returns the entries of a pin's staging tables that are also in another pin.
func common(pin, with map[string]dataset.TablePin) map[string]dataset.TablePin {
	out := map[string]dataset.TablePin{}
	for name, table := range pin {
		if _, ok := with[name]; ok {
			out[name] = table
		}
	}
	return out
}

// otherFilter returns the error for a query whose own filter differs from that of its
// cursor. Both filters must be in canonical form to be compared; a query without a
// filter takes the cursor's.
func otherFilter(given, had string, differs []string) error {
	e := fault.InvalidField("filter", "%s, but the cursor has %s", given, cmp.Or(had, "none"))
	e.Differs = differs
	return e.WithRemedy("leave filter out: it comes from the cursor")
}

// start is the position at which a shard's stream begins.
type start struct {
	lanes  []lane.Lane
	step   int64
	rows   int64 // rows each lane has returned so far; requests, if batches consist of requests
	uneven bool  // lanes have not all returned exactly rows, see dataset.Cursor
	q      int64 // rows per lane and step; requests, if batches consist of requests
	// counts is the number of rows of each lane; nil if unknown.
	counts *dataset.Counts
}

// begin checks a reading with its number of rows per batch against its plan and
// computes where it starts.
func begin(p *plan.Plan, r StreamOptions, batchRows int) (start, error) {
	l := len(p.Lanes)
	switch {
	case r.Every.Of < 0 || r.Every.Step < 0 || r.Every.Step >= max(1, r.Every.Of):
		return start{}, fault.InvalidField("every", "step %d is outside of the %d that take turns", r.Every.Step, r.Every.Of)
	case r.Shard.Of < 1 || r.Shard.Index < 0 || r.Shard.Index >= r.Shard.Of:
		return start{}, fault.InvalidField("shard", "shard %d is outside of %s", r.Shard.Index, fault.Count(r.Shard.Of, "shard"))
	case l%r.Shard.Of != 0:
		return start{}, fault.InvalidField("shard.of", "%d shards do not divide %s", r.Shard.Of, fault.Count(l, "lane")).
			WithRemedy("set lanes to a multiple of the number of shards, such as %d", (l/r.Shard.Of+1)*r.Shard.Of)
	}
	perStep := l / r.Shard.Of
	if batchRows < 1 || batchRows%perStep != 0 {
		field, times := r.sizedBy()
		return start{}, fault.InvalidField(field, "%d cannot be divided among the %d lanes of a shard", batchRows, perStep).
			WithRemedy("use a multiple of %d, such as %d", times*perStep, times*max(1, batchRows/perStep)*perStep)
	}
	counts, err := r.Known(p)
	if err != nil {
		return start{}, err
	}
	if counts != nil && len(counts.Lanes) != l {
		return start{}, fault.New(fault.Internal, "the rows of %d lanes were counted, the plan has %d", len(counts.Lanes), l)
	}
	s := start{q: int64(batchRows / perStep), counts: counts}
	for i := r.Shard.Index; i < l; i += r.Shard.Of {
		s.lanes = append(s.lanes, lane.Lane{Number: i, Ranges: rangeRows(p, i), Window: p.Rows.ShuffleWindow})
	}
	if err := s.resume(p, r.Cursor); err != nil {
		return start{}, err
	}
	if s.uneven && r.Tail.Drops() {
		return start{}, fault.InvalidField("tail", "drop takes equal rows of every lane, and from this cursor on lanes have given unequal ones, or nobody knows how many").
			WithRemedy("use tail: keep, or a cursor of a stream without limit and of endpoints: shards")
	}
	return s, s.within(p, r.Part, len(r.Cursor) > 0)
}

// rangeRows returns the number of rows of each range of a lane, or lane.Unknown.
func rangeRows(p *plan.Plan, number int) []int64 {
	rows := make([]int64, len(p.Lanes[number].Ranges))
	for i, r := range p.Lanes[number].Ranges {
		rows[i] = r.To - r.From
		if p.Inexact != "" {
			rows[i] = lane.Unknown
		}
	}
	return rows
}

// resume moves the lanes to the positions of the cursors.
func (s *start) resume(p *plan.Plan, cursors dataset.Cursors) error {
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
		if !stands(p, position) {
			return fault.InvalidField("cursor.at", "lane %d has no split %d, window %d, row %d", position.Lane, position.Range, position.Window, position.Row)
		}
		l.Start = lane.Position{Range: position.Range, Window: position.Window, Row: position.Row}
	}
	if err := s.align(p, cursors); err != nil {
		return err
	}
	if err := checkSteps(p, cursors); err != nil {
		return err
	}
	return s.checkCounts(p)
}

// checkCounts checks that the positions of the lanes are consistent with the number of
// rows that the lanes have returned, and with the counted rows.
func (s *start) checkCounts(p *plan.Plan) error {
	switch {
	case s.uneven:
		return nil
	case p.Inexact == "":
		return s.checkRows(p)
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

// checkRows checks that the lanes have returned as many rows as the cursor states, if
// the plan knows the rows of each range.
func (s *start) checkRows(p *plan.Plan) error {
	for _, l := range s.lanes {
		at := dataset.Position{Lane: l.Number, Range: l.Start.Range, Window: l.Start.Window, Row: l.Start.Row}
		given, ended := p.RowsBefore(at), l.Start.Range == len(l.Ranges)
		if given > s.rows || !ended && given < s.rows {
			return fault.InvalidField("cursor.rows", "each lane gave %s, but lane %d stands behind %d", fault.Count(s.rows, "row"), l.Number, given).
				WithRemedy("resume with the cursor as it came")
		}
	}
	return nil
}

// left returns the number of rows of each lane after its start, if rows were counted;
// nil otherwise.
func (s *start) left(p *plan.Plan) []int64 {
	if s.counts == nil || s.uneven || p.Inexact == "" {
		return nil
	}
	left := make([]int64, len(s.lanes))
	for i, l := range s.lanes {
		left[i] = max(0, s.counts.Lanes[l.Number]-s.rows)
	}
	return left
}

// differs is the error of a stream whose rows differ in number from the counted ones.
func differs(number int, counted int64) error {
	return fault.InvalidField("cursor.counted", "lane %d gives other than the %d that were counted", number, counted).
		WithRemedy("see that nobody replaces files of the tables; start without the cursor, so that the rows are counted again")
}

// stands reports whether a position is valid for its lane of the plan.
func stands(p *plan.Plan, at dataset.Position) bool {
	ranges := p.Lanes[at.Lane].Ranges
	switch {
	case at.Range < 0 || at.Window < 0 || at.Row < 0 || at.Range > len(ranges):
		return false
	case at.Range == len(ranges):
		return at.Window == 0 && at.Row == 0
	}
	rows := ranges[at.Range].To - ranges[at.Range].From
	if at.Window > 0 && (p.Rows.ShuffleWindow == 0 || at.Window > (rows-1)/p.Rows.ShuffleWindow) {
		return false
	}
	if p.Rows.ShuffleWindow > 0 {
		rows = min(p.Rows.ShuffleWindow, rows-at.Window*p.Rows.ShuffleWindow)
	}
	return p.Inexact != "" || at.Row <= rows
}

// align checks that cursors given together have returned the same number of rows per
// lane. A shard whose lanes have all ended may have stopped earlier.
func (s *start) align(p *plan.Plan, cursors dataset.Cursors) error {
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
			if position.Range < len(p.Lanes[position.Lane].Ranges) {
				return fault.InvalidField(fmt.Sprintf("cursor[%d]", i), "it stands at %s per lane, another at %d", fault.Count(c.Given, "row"), furthest.Given).
					WithRemedy("give the cursors that all shards saved after the same step")
			}
		}
	}
	return nil
}
