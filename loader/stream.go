package loader

import (
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// Stream is what a trainer reads: batches with a cursor, and a report.
type Stream interface {
	array.RecordReader
	// Cursor returns where the stream stands after the batch last returned.
	Cursor() dataset.Cursor
	// Report returns what the stream gave so far; at its end, all of it.
	Report() Report
}

// stream is a lane reader that knows its plan.
type stream struct {
	*lane.Reader
	plan    *plan.Plan
	reading Reading
	start   start
	ranges  *ranges
	indexed []lane.IndexedColumn
	rows    int64
}

func (s *stream) Next() bool {
	if !s.Reader.Next() {
		return false
	}
	s.rows += s.RecordBatch().NumRows()
	return true
}

func (s *stream) Cursor() dataset.Cursor {
	c := s.plan.Cursor()
	c.Shard = s.reading.Shard
	c.Step = s.start.step + s.Steps()
	c.Rows = s.start.rows + s.Steps()*s.start.q
	c.At = []dataset.Position{}
	for i, at := range s.Positions() {
		c.At = append(c.At, dataset.Position{Lane: s.start.lanes[i].Number, Range: at.Range, Row: at.Row})
	}
	return c
}

// stepsLeft returns how many steps a reading ends after; lane.Unknown until
// all its lanes have ended.
func (s start) stepsLeft(p *plan.Plan, tail dataset.Tail) int64 {
	if !tail.Drops() {
		return lane.Unknown
	}
	shortest := p.Rows
	for _, l := range p.Lanes {
		shortest = min(shortest, l.Rows)
	}
	return max(0, shortest-s.rows) / s.q
}
