package loader

import (
	"encoding/json"

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

// Report is what a stream did. Its JSON form is the stream's last message.
type Report struct {
	Rows     int64                    `json:"rows"`
	Batches  int64                    `json:"batches"`
	Steps    int64                    `json:"steps"`
	Leftover []Leftover               `json:"leftover"` // of tail: drop
	Cursor   dataset.Cursor           `json:"cursor"`
	Sample   json.RawMessage          `json:"sample,omitempty"` // the query's, canonical, so that a trainer can weight rows by it
	Staging  map[string]StagingReport `json:"staging"`          // of the staging tables that were read
}

// Leftover is the rows of a lane that did not fill a last step.
type Leftover struct {
	Lane int   `json:"lane"`
	Rows int64 `json:"rows"`
}

// stream is a lane reader that knows its plan.
type stream struct {
	*lane.Reader
	plan    *plan.Plan
	reading Reading
	start   start
	splits  *splits
	levels  []lane.IndexedColumn
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

func (s *stream) Report() Report {
	r := Report{
		Rows: s.rows, Batches: s.Steps(), Steps: s.Steps(), Leftover: []Leftover{}, Cursor: s.Cursor(),
		Sample: json.RawMessage(s.plan.SampleText), Staging: s.splits.report(),
	}
	for i, sent := range s.Sent() {
		name := s.splits.name(s.levels[i])
		met := r.Staging[name]
		met.Sent = sent
		if sent > 0 {
			met.Ratio = float64(s.rows) / float64(sent)
		}
		r.Staging[name] = met
	}
	if !s.reading.Tail.Drops() {
		return r
	}
	for _, l := range s.start.lanes {
		if left := s.plan.Lanes[l.Number].Rows - r.Cursor.Rows; left > 0 {
			r.Leftover = append(r.Leftover, Leftover{Lane: l.Number, Rows: left})
		}
	}
	return r
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
