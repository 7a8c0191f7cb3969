package stream

import (
	"cmp"
	"context"
	"slices"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// Known returns the number of rows of each lane of a plan if it is known without reading: from the
// plan, or else from an earlier count, or else from the cursors of a reading. Otherwise it returns
// nil. The counts of lanes that the reading does not read may be dataset.UnknownRows.
func Known(p *plan.Plan, r dataset.Reading, counted *dataset.Counts) (*dataset.Counts, error) {
	if known := p.Counts(); known != nil {
		return known, nil
	}
	if counted != nil {
		return counted, nil
	}
	counts, err := r.Cursor.Counts()
	if counts != nil && len(counts.Lanes) != len(p.Lanes) {
		return nil, nil //nolint:nilnil // the cursors are of another plan, which is refused elsewhere
	}
	return counts, err
}

// CountLanes counts the rows, or requests, of each lane of a plan by reading them without output
// columns. It reads the ranges of all lanes as one lane, in the order of their splits, so that each
// file group is needed only once. If batches consist of requests and rows are permuted, it reads
// runs instead of ranges.
func CountLanes(ctx context.Context, options Options, p *plan.Plan, peer string) (*dataset.Counts, error) {
	ctx, entered := options.Budget.Enter(ctx, peer) // the count may wait for memory
	defer entered.Release()
	opens := opens{spec: joined.RangesSpec{Plan: p, CountOnly: true}}
	permuted := p.Rows.Requests && p.Rows.ShuffleWindow > 0 // otherwise the order is not visible
	if p.Rows.Requests {
		opens.spec.Key = p.RequestKey
	}
	ranges, runs, of := inSplitOrder(p, permuted)
	opens.spec.Lanes = []joined.LaneRanges{{Ranges: ranges, Needed: len(ranges)}}
	if permuted {
		opens.runs = map[int][]plan.Run{0: runs}
	}
	opened, err := newSequences(ctx, options, opens)
	if err != nil {
		return nil, err
	}
	defer opened.joined.Close()
	lanes := make([]int64, len(p.Lanes))
	for i, number := range of {
		rows, err := opened.count(ctx, i)
		if err != nil {
			return nil, err
		}
		lanes[number] += rows
	}
	return dataset.NewCounts(lanes), nil
}

// inSplitOrder returns the ranges of all lanes of a plan, ordered by split, and the lane of each
// range (of). If permuted is set, the ranges of each run stay together. Then inSplitOrder also
// returns the runs, and of contains the lane of each run instead.
func inSplitOrder(p *plan.Plan, permuted bool) (ranges []plan.Range, runs []plan.Run, of []int) {
	type owned struct {
		ranges []plan.Range
		run    plan.Run
		lane   int
	}
	var all []owned
	for number, l := range p.Lanes {
		if !permuted {
			for i := range l.Ranges {
				all = append(all, owned{ranges: l.Ranges[i : i+1], lane: number})
			}
			continue
		}
		for _, run := range p.Runs(number) {
			all = append(all, owned{ranges: l.Ranges[run.First : run.First+run.Ranges()], run: run, lane: number})
		}
	}
	slices.SortStableFunc(all, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.ranges[0].Split, b.ranges[0].Split), cmp.Compare(a.ranges[0].From, b.ranges[0].From))
	})
	for _, one := range all {
		one.run.First = len(ranges)
		ranges, runs, of = append(ranges, one.ranges...), append(runs, one.run), append(of, one.lane)
	}
	return ranges, runs, of
}

// count returns the number of rows, or requests, of a final sequence of the only lane.
func (s *sequences) count(ctx context.Context, index int) (int64, error) {
	reader, err := s.open(ctx, 0, lane.Position{Range: index})
	if err != nil {
		return 0, err
	}
	defer reader.Release()
	if s.spec.Plan.Rows.Requests {
		return lane.CountRequests(ctx, reader, s.joined.Layout.KeptKey, s.options.Budget)
	}
	rows := int64(0)
	for reader.Next() {
		rows += reader.RecordBatch().NumRows()
	}
	return rows, reader.Err()
}
