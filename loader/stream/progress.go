package stream

import (
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
)

// progress is what a stream has returned or skipped.
type progress struct {
	at       []lane.Position // of the lanes, after the last batch returned
	consumed []int64         // rows, or requests, that each lane has returned or skipped
	steps    int64           // of the shard; at the end, of all steps
	batches  int64
	skipped  int64   // rows in the steps of other DataLoader workers
	perLane  int64   // rows, or requests, that each lane has returned, see lane.Reader.RowsPerLane
	uneven   bool    // lanes have not all returned exactly perLane
	distinct []int64 // by indexed column: distinct rows in the batches
}

// progress returns the stream's progress up to the last batch returned.
func (s *ShardReader) progress() progress {
	p := s.earlier
	if r := s.reader; r != nil {
		p.at = r.Positions()
		p.steps, p.batches, p.skipped = p.steps+r.Steps(), p.batches+r.Batches(), p.skipped+r.Skipped()
		rows, uneven := r.RowsPerLane()
		p.perLane, p.uneven = p.perLane+rows, p.uneven || uneven
		p.consumed, p.distinct = sums(r.Consumed(), p.consumed), sums(r.DistinctSent(), p.distinct)
	}
	return p
}

// sums adds earlier values, of which there may be none, to values.
func sums(values, earlier []int64) []int64 {
	for i, v := range earlier {
		values[i] += v
	}
	return values
}

// ended reports whether all lanes have returned all of their rows.
func (s *ShardReader) ended(at []lane.Position) bool {
	for i, one := range at {
		if one.Range < len(s.start.lanes[i].Ranges) {
			return false
		}
	}
	return true
}

// Cursor returns the stream's position after the batch last returned.
func (s *ShardReader) Cursor() dataset.Cursor {
	p := s.progress()
	c := s.spec.Plan.Cursor()
	c.Shard = s.spec.Reading.Shard
	c.Step = s.start.step + p.steps
	c.Given, c.Uneven = s.start.rows+s.returned(p), s.start.uneven || p.uneven
	c.At = []dataset.Position{}
	for i, at := range p.at {
		c.At = append(c.At, s.start.position(s.start.lanes[i], at))
	}
	if s.start.counts != nil && s.spec.Plan.Inexact != "" {
		c.Counted = s.start.counts.Of(c.Shard)
	}
	return c
}

// Park releases everything that the stream holds except its position, including the
// last batch returned unless the caller has retained it. The following Next resumes
// with the next row. Park reports whether the stream was parked: a stream that
// holds nothing or has failed is not, and after resuming, a stream cannot be parked
// under pressure (pressed) until it has returned as many rows as it had to read
// again.
func (s *ShardReader) Park(pressed bool) bool {
	if s.reader == nil || s.Err() != nil || pressed && s.again > 0 {
		return false
	}
	s.earlier = s.progress()
	if s.again = s.reader.Weighed(); s.again > 0 {
		s.sequences.discardAll()
	} else if !s.limited() { // otherwise nothing counts the rows again
		s.again = s.sequences.rewind(s.start.lanes, s.earlier.at)
	}
	s.reader.Release()
	s.reader = nil
	return true
}
