package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// way is a way to deal the splits of an epoch to lanes.
type way struct {
	name        string
	filesCached bool // a cache of files is beneath all replicas
	deal        func(ctx context.Context, l *lake, rows dataset.Rows) (*plan.Plan, error)
}

// The planner's algorithms.
const (
	dealtEachEpoch = 1 // splits are dealt to lanes in the order of each epoch
	dealtOnce      = 2 // lanes have the same rows in all epochs
)

// ways returns the ways to compare. All of them use the splits, and their order in an epoch, of the planner.
func ways() []way {
	each := func(ctx context.Context, l *lake, rows dataset.Rows) (*plan.Plan, error) {
		return l.plan(ctx, rows, dealtEachEpoch)
	}
	return []way{
		{name: "each epoch", deal: each},
		{name: "each epoch, file cache", deal: each, filesCached: true},
		{name: "once, stored order", deal: dealtAsStored},
		{name: "once, by bucket", deal: func(ctx context.Context, l *lake, rows dataset.Rows) (*plan.Plan, error) {
			return l.plan(ctx, rows, dealtOnce)
		}},
		{name: "residue classes", deal: dealtByClass},
	}
}

// dealtAsStored returns the plan of an epoch with the lanes of the stored order. Each lane has its own shuffled order in an epoch. The
// ranges of cut splits are last, so that they extend a run.
func dealtAsStored(ctx context.Context, l *lake, rows dataset.Rows) (*plan.Plan, error) {
	p, err := l.plan(ctx, rows, dealtEachEpoch)
	if err != nil {
		return nil, err
	}
	other, err := l.plan(ctx, dataset.Rows{Lanes: rows.Lanes, Order: dataset.Stored}, dealtEachEpoch)
	if err != nil {
		return nil, err
	}
	index := places(p)
	out := *p
	out.Lanes = make([]plan.Lane, len(other.Lanes))
	for i, lane := range other.Lanes {
		own := rows
		own.Seed = int64(hashed(fmt.Sprint("lane", i, rows.Seed)) >> 1)
		ordered, err := l.plan(ctx, own, dealtEachEpoch)
		if err != nil {
			return nil, err
		}
		place := places(ordered)
		ranges := make([]plan.Range, len(lane.Ranges))
		for j, r := range lane.Ranges {
			ranges[j] = plan.Range{Split: index[other.Splits[r.Split].ID], From: r.From, To: r.To}
		}
		slices.SortStableFunc(ranges, func(a, b plan.Range) int {
			return cmp.Or(cmp.Compare(wholeFirst(p, a), wholeFirst(p, b)), cmp.Compare(place[p.Splits[a.Split].ID], place[p.Splits[b.Split].ID]))
		})
		out.Lanes[i] = plan.Lane{Ranges: ranges, Rows: lane.Rows}
	}
	return &out, nil
}

// places returns the position of each split in a plan's order, by its id.
func places(p *plan.Plan) map[string]int {
	out := make(map[string]int, len(p.Splits))
	for i, s := range p.Splits {
		out[s.ID] = i
	}
	return out
}

// wholeFirst returns 0 for a whole split and 1 for a part of one.
func wholeFirst(p *plan.Plan, r plan.Range) int {
	if r.To-r.From == p.Splits[r.Split].Rows {
		return 0
	}
	return 1
}

// dealtByClass returns the plan of an epoch in which the splits of a bucket go to lanes that are congruent to the bucket, modulo the
// greatest common divisor of the numbers of lanes and buckets, as long as one of these lanes is below its quota. The rest goes to
// the lanes with the fewest rows.
func dealtByClass(ctx context.Context, l *lake, rows dataset.Rows) (*plan.Plan, error) {
	p, err := l.plan(ctx, rows, dealtEachEpoch)
	if err != nil {
		return nil, err
	}
	lanes := len(p.Lanes)
	modulus := divisor(lanes, p.Splits[0].Bucket.Of)
	out := *p
	out.Lanes = make([]plan.Lane, lanes)
	var rest []plan.Range
	for i, s := range p.Splits {
		var own []int
		for lane := s.Bucket.ID % modulus; lane < lanes; lane += modulus {
			own = append(own, lane)
		}
		rest = append(rest, fill(&out, p.Lanes, plan.Range{Split: i, To: s.Rows}, own)...)
	}
	all := make([]int, lanes)
	for i := range all {
		all[i] = i
	}
	for _, r := range rest {
		fill(&out, p.Lanes, r, all)
	}
	return &out, nil
}

// fill adds a range to the given lanes with the fewest rows, each up to its rows in the planner's plan, and returns the rest.
func fill(p *plan.Plan, quotas []plan.Lane, r plan.Range, lanes []int) []plan.Range {
	for r.From < r.To {
		best := -1
		for _, lane := range lanes {
			if p.Lanes[lane].Rows < quotas[lane].Rows && (best < 0 || p.Lanes[lane].Rows < p.Lanes[best].Rows) {
				best = lane
			}
		}
		if best < 0 {
			return []plan.Range{r}
		}
		// The splits of a bucket follow one another in one lane, as in the planner.
		if last := lastLane(p, r.Split, lanes); last >= 0 && p.Lanes[last].Rows < quotas[last].Rows {
			best = last
		}
		end := min(r.To, r.From+quotas[best].Rows-p.Lanes[best].Rows)
		p.Lanes[best].Ranges = append(p.Lanes[best].Ranges, plan.Range{Split: r.Split, From: r.From, To: end})
		p.Lanes[best].Rows += end - r.From
		r.From = end
	}
	return nil
}

// lastLane returns the lane whose last range is of the same bucket as the split before, or -1.
func lastLane(p *plan.Plan, split int, lanes []int) int {
	if split == 0 || p.Splits[split-1].Bucket != p.Splits[split].Bucket {
		return -1
	}
	for _, lane := range lanes {
		if ranges := p.Lanes[lane].Ranges; len(ranges) > 0 && ranges[len(ranges)-1].Split == split-1 {
			return lane
		}
	}
	return -1
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
