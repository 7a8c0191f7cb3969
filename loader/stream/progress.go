package stream

import (
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
)

// progress returns the stream's progress up to the last batch returned.
func (s *ShardReader) progress() lane.Progress {
	if s.reader == nil {
		return s.earlier
	}
	return s.reader.Progress().After(s.earlier)
}

// ended reports whether all lanes have returned all of their rows.
func (s *ShardReader) ended(at []lane.Position) bool {
	for i, one := range at {
		if one.Range < len(s.shard.lanes[i].Ranges) {
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
	c.Step = s.shard.step + p.Steps
	c.Given, c.Uneven = s.shard.rows+s.returned(p), s.shard.uneven || p.Uneven
	c.At = []dataset.Position{}
	for i, at := range p.At {
		c.At = append(c.At, s.shard.position(s.shard.lanes[i], at))
	}
	if s.shard.counts != nil && s.spec.Plan.Inexact != "" {
		c.Counted = s.shard.counts.Of(c.Shard)
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
		s.again = s.sequences.rewind(s.shard.lanes, s.earlier.At)
	}
	s.reader.Release()
	s.reader = nil
	return true
}
