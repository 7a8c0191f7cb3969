package client

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// Report holds the counts that a server sends in the last message of a stream.
type Report struct {
	Rows     int64             `json:"rows"`
	Requests int64             `json:"requests"` // the number of requests that Rows belong to; 0 unless batches consist of whole requests
	Staging  map[string]Counts `json:"staging"`
}

// Counts holds the number of training rows, and how many of them matched a row of one staging
// table.
type Counts struct {
	Rows    int64  `json:"rows"`
	Matched int64  `json:"matched"`
	Warning string `json:"warning"` // the first warning that a stream reported, or ""
}

// parseReport decodes the JSON of a report.
func parseReport(text []byte) (r Report, err error) {
	if err = json.Unmarshal(text, &r); err != nil {
		err = fault.New(fault.Internal, "read the stream's report: %w", err)
	}
	return r, err
}

// add adds the report of another shard.
func (r *Report) add(other Report) {
	r.Rows += other.Rows
	r.Requests += other.Requests
	if r.Staging == nil {
		r.Staging = map[string]Counts{}
	}
	for name, c := range other.Staging {
		sum := r.Staging[name]
		r.Staging[name] = Counts{Rows: sum.Rows + c.Rows, Matched: sum.Matched + c.Matched, Warning: cmp.Or(sum.Warning, c.Warning)}
	}
}

// Shards reads the streams of a query's shards, one after the other. A batch is valid
// until the next call of Next or Release.
type Shards struct {
	Schema  *arrow.Schema
	Grouped bool   // whether each row of the batches is a request
	Planned int64  // the number of rows of all streams; -1: unknown
	Total   Report // the sum of the reports of the streams that have ended

	pending []func() (*stream, error) // functions that open the remaining streams, in the order of the streams
	open    *stream                   // the stream that is being read; nil before, between and after streams
	err     error
}

// Count returns the number of rows of a query. If the server cannot count the rows before they are
// read, as for a query of requests, Count reads them.
func (c *Client) Count(ctx context.Context, query []byte) (int64, error) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(query, &fields) == nil { // otherwise the server reports the error
		fields["count"] = []byte(`"exact"`)
		if text, err := json.Marshal(fields); err == nil {
			query = text
		}
	}
	all, err := c.Open(ctx, query)
	if err != nil {
		return 0, err
	}
	defer all.Release()
	if all.Planned >= 0 {
		return all.Planned, nil
	}
	rows := int64(0)
	for all.Next() {
		rows += all.RecordBatch().NumRows()
	}
	if all.Grouped {
		rows = all.Total.Rows
	}
	return rows, all.Err()
}

// Err returns the error because of which Next returned false, or nil if Next returned false because
// all streams were read.
func (s *Shards) Err() error { return s.err }

// RecordBatch returns the batch that Next moved to.
func (s *Shards) RecordBatch() arrow.RecordBatch { return s.open.RecordBatch() }

// Cursor returns, as JSON, the cursor for the position after the batch that Next moved to.
func (s *Shards) Cursor() []byte { return s.open.LatestAppMetadata() }

// Next moves to the next batch that has rows.
func (s *Shards) Next() bool {
	for s.err == nil {
		if s.open == nil {
			if len(s.pending) == 0 {
				return false
			}
			if s.open, s.err = s.pending[0](); s.err != nil {
				s.open = nil
				return false
			}
			s.pending = s.pending[1:]
		}
		if s.open.Next() {
			if s.open.RecordBatch().NumRows() > 0 {
				return true
			}
			continue
		}
		s.finish()
	}
	return false
}

// finish checks the open stream, which has no more batches, adds its report to Total, and releases
// it.
func (s *Shards) finish() {
	if s.err = s.open.Err(); s.err == nil && s.open.moved != nil {
		s.move()
		return
	}
	if s.err == nil {
		var r Report
		if r, s.err = s.open.Report(); s.err == nil {
			s.Total.add(r)
		}
	}
	s.Release()
}

// move opens the rest of the open stream, which has moved. Total has its rows; how many of them matched is unknown.
func (s *Shards) move() {
	next, err := s.open.follow()
	s.Total.Rows += s.open.rows
	s.Release()
	s.open, s.err = next, err
}

// Release releases the open stream, if any.
func (s *Shards) Release() {
	if s.open != nil {
		s.open.Release()
		s.open = nil
	}
}
