package flight

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// count counts the rows of a planned query if the query requires the number and the plan does not
// have it. Counting reads as much as a stream, so it takes a slot. Callers that need the same count
// share it, and it ends when the last of them leaves.
func (s *Server) count(ctx context.Context, p *planned) error {
	c := p.access.Call
	options := loader.StreamOptions{Counts: p.counts, Peer: c.Client()}
	if p.Query.CountsFirst() && p.counts == nil {
		c.Slot.Leave() // counting takes as long as a stream
	}
	at := s.admission.Of(admission.Stream{Client: options.Peer})
	admit := func(ctx context.Context) (context.Context, func(), error) {
		began := s.options.Clock()
		in, leave := s.enter(ctx)
		if err := at.Enter(in); err != nil {
			at.Release()
			leave()
			return nil, nil, failure.Cause(in, err)
		}
		return in, func() {
			at.Release()
			leave()
			s.options.Logger.InfoContext(ctx, "rows counted", "dataset", p.Query.Dataset, "plan", p.ID, "took", s.options.Clock().Sub(began))
		}, nil
	}
	counts, err := s.options.Loader.Count(ctx, p.Planned, options, admit)
	for at.Again(ctx, err, nil) {
		counts, err = s.options.Loader.Count(ctx, p.Planned, options, admit)
	}
	p.counts = counts
	if err != nil {
		return err
	}
	return c.Slot.EnterCall(ctx)
}

// readSlot takes a slot for a client that reads as much as a stream, if one is free.
func (s *Server) readSlot(client string) (leave func(), ok bool) {
	at := s.admission.Of(admission.Stream{Client: client})
	return at.Release, at.Try()
}

// counted sets the counts from a ticket. A ticket without counts that requires them was made
// before rows were counted.
func (p *planned) counted(c ticket.Content) error {
	if c.Counted != nil {
		counts, err := c.Counted.Counts(len(p.Lanes), p.Query.Shard)
		if err != nil {
			return err
		}
		p.counts = counts
	}
	if p.counts == nil && p.Query.CountsFirst() {
		return ticket.Expired("the ticket does not say how many rows were counted")
	}
	return nil
}

// carried returns the counts that tickets and cursors of a shard carry; nil if the plan
// itself has them, or if there are none.
func (p planned) carried(shard dataset.Shard) *dataset.Counted {
	if p.counts == nil || p.Inexact == "" {
		return nil
	}
	return p.counts.Of(shard)
}

// rowsOf returns the number of rows of one shard from the query's cursor on, or unknown.
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

// batchesOf returns the number of batches of one shard from the query's cursor on, or
// unknown.
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

// stepsFor returns the number of steps, of q rows per lane, that contain the given number of
// rows; all steps if the lanes have fewer rows. Lanes with an unknown number of rows count as
// empty.
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

// leftOf returns the number of rows, or requests, that each lane of a shard returns from the
// query's cursor on. It returns false if the numbers are not known.
func (p planned) leftOf(shard dataset.Shard) ([]int64, bool) {
	if p.counts == nil || !p.counts.Knows(shard) {
		return nil, false
	}
	var lanes []int64
	for i := shard.Index; i < len(p.Lanes); i += shard.Of {
		if p.given[i] == unknown {
			return nil, false
		}
		left := max(0, p.counts.Lanes[i]-p.given[i])
		if p.Query.Tail.Drops() {
			left = max(0, p.counts.Shortest-p.given[i]) / p.perStep() * p.perStep()
		}
		lanes = append(lanes, left)
	}
	return lanes, true
}

// givenBefore returns the number of rows that each lane has returned before the query's cursor, or
// unknown. If nothing drops or repeats rows, that is the number of rows of the lane's ranges before
// the cursor. Otherwise it is the number that the cursor states for all lanes that have not ended.
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
