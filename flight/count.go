package flight

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// count finds out how many rows a planned query gives, if it asks for that and nobody
// knows. That reads as much as a stream may, so that it has a place as one; it ends when
// all have gone who wait for it.
func (s *Server) count(ctx context.Context, p *planned) error {
	options := loader.StreamOptions{Counts: p.counts, Peer: hostOf(ctx)}
	counts, err := s.options.Loader.Count(ctx, p.Planned, options, func(ctx context.Context) (context.Context, func(), error) {
		began := s.options.Clock()
		in, leave := s.enter(ctx)
		at := s.admission.of(caller{host: options.Peer})
		if err := at.enter(in); err != nil {
			at.Release()
			leave()
			return nil, nil, contextCause(in, err)
		}
		return in, func() {
			at.Release()
			leave()
			s.options.Logger.InfoContext(ctx, "rows counted", "dataset", p.Query.Dataset, "plan", p.ID, "took", s.options.Clock().Sub(began))
		}, nil
	})
	p.counts = counts
	return err
}

// counted takes over what a ticket says was counted. One without it that needs it was
// made when nobody counted.
func (p *planned) counted(c content) error {
	if c.Counted != nil {
		counts, err := c.Counted.Counts(len(p.Lanes), p.Query.Shard)
		if err != nil {
			return err
		}
		p.counts = counts
	}
	if p.counts == nil && p.Query.CountsFirst() {
		return stale("the ticket does not say how many rows were counted")
	}
	return nil
}

// carried is what tickets and cursors of a shard carry of the counts: what the plan does
// not say by itself; nil if there is nothing.
func (p planned) carried(shard dataset.Shard) *dataset.Counted {
	if p.counts == nil || p.Inexact == "" {
		return nil
	}
	return p.counts.Of(shard)
}

// rowsOf returns how many rows the query gives of one shard, from where its cursor
// stands, or unknown.
func (p planned) rowsOf(shard dataset.Shard) int64 {
	lanes, known := p.leftOf(shard)
	if !known || p.Rows.Requests {
		return unknown
	}
	rows := int64(0)
	for _, left := range lanes {
		rows += p.Query.Every.Rows(left, p.perStep())
	}
	return rows
}

// batchesOf returns in how many batches the query gives the rows of one shard, from where
// its cursor stands, or unknown.
func (p planned) batchesOf(shard dataset.Shard) int64 {
	lanes, known := p.leftOf(shard)
	if !known {
		return unknown
	}
	rows := int64(math.MaxInt64)
	if limit := p.Query.Limit; limit > 0 {
		rows = limit
	}
	return p.Query.Every.Steps(stepsFor(lanes, p.perStep(), rows))
}

// stepsFor returns how many steps, with q rows of each lane in each, give so many rows of
// lanes; all steps if there are fewer. Lanes whose rows are unknown give none.
func stepsFor(lanes []int64, q, rows int64) int64 {
	longest := max(0, slices.Max(lanes))
	return int64(sort.Search(int((longest+q-1)/q), func(step int) bool {
		given := int64(0)
		for _, lane := range lanes {
			given += min(max(0, lane), int64(step)*q)
		}
		return given >= rows
	}))
}

// leftOf returns how many rows, or requests, each lane of a shard gives, from where the
// query's cursor stands; false if that is not known.
func (p planned) leftOf(shard dataset.Shard) ([]int64, bool) {
	if p.counts == nil || !p.counts.Knows(shard) {
		return nil, false
	}
	given := p.givenBefore()
	var lanes []int64
	for i := shard.Index; i < len(p.Lanes); i += shard.Of {
		if given[i] == unknown {
			return nil, false
		}
		left := max(0, p.counts.Lanes[i]-given[i])
		if p.Query.Tail.Drops() {
			left = max(0, p.counts.Shortest-given[i]) / p.perStep() * p.perStep()
		}
		lanes = append(lanes, left)
	}
	return lanes, true
}

// givenBefore returns the rows that each lane has given where the query's cursor stands,
// those that have ended left out, or unknown: by the rows of its ranges, where these are
// exact and all rows are given, else by what the cursor says of all lanes.
func (p planned) givenBefore() []int64 {
	given := make([]int64, len(p.Lanes))
	exact := p.Inexact == "" && !p.Query.Tail.Drops()
	furthest, uneven := int64(0), false
	for _, c := range p.Query.Cursor {
		furthest, uneven = max(furthest, c.Given), uneven || c.Uneven
		for _, at := range c.At {
			if exact {
				given[at.Lane] = p.RowsBefore(at)
			}
		}
	}
	if exact {
		return given
	}
	if uneven {
		furthest = unknown
	}
	for i := range given {
		given[i] = furthest
	}
	return given
}
