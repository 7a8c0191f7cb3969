package loader

import (
	"encoding/json"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Report describes what a stream returned. Its JSON form is the stream's last message.
type Report struct {
	Rows     int64           `json:"rows"`
	Requests int64           `json:"requests,omitempty"` // in Rows, if batches consist of requests
	Batches  int64           `json:"batches"`
	Steps    int64           `json:"steps"`             // of the shard, including those of other DataLoader workers
	Skipped  int64           `json:"skipped,omitempty"` // rows of the steps of other DataLoader workers
	Leftover []Leftover      `json:"leftover"`          // with tail: drop
	Cursor   dataset.Cursor  `json:"cursor"`
	Sample   json.RawMessage `json:"sample,omitempty"` // the query's sample, canonical, so that a trainer can weight rows by it
	// Divided is the number of windows that began within a request, if rows are
	// shuffled by request.
	Divided int64                    `json:"divided_requests,omitempty"`
	Staging map[string]StagingReport `json:"staging"`           // by staging table that was read
	Request *RequestReport           `json:"request,omitempty"` // the columns that are constant within a request, if they are indexed
	Indexed []string                 `json:"indexed,omitempty"` // with wire: auto: the columns that the stream indexed
}

// RequestReport describes what a stream sent of the columns that are constant within a
// request.
type RequestReport struct {
	Sent  int64   `json:"sent"`  // requests in the batches, summed over the batches
	Ratio float64 `json:"ratio"` // rows of the stream over Sent; 0 without rows
}

// Leftover is the number of rows, or requests, of a lane that did not fill a last step.
type Leftover struct {
	Lane     int   `json:"lane"`
	Rows     int64 `json:"rows,omitempty"`
	Requests int64 `json:"requests,omitempty"` // instead of rows, if batches consist of requests
}

// StagingReport holds the counts of one staging table in a stream, and the cost of
// joining it.
type StagingReport struct {
	joiner.Counts
	Strategy      string  `json:"strategy"`                   // used; several, if file groups differed
	BytesRead     int64   `json:"bytes_read"`                 // of files, by this stream: build sides that another stream built are not included
	ReadAgain     int64   `json:"bytes_read_again,omitempty"` // in addition: read again after the stream was parked
	Amplification float64 `json:"amplification"`              // bytes read over the bytes of the distinct files read; 0 if none were
	SpilledBytes  int64   `json:"spilled_bytes"`              // written to local disk
	Sent          int64   `json:"sent,omitempty"`             // with wire: indexed: rows of the table in the batches' dictionaries
	Ratio         float64 `json:"ratio,omitempty"`            // rows of the stream over Sent
}

// report returns the counts of each staging input, by name.
func (s *ranges) report() map[string]StagingReport {
	byName := make(map[string]StagingReport, len(s.staging))
	for i, in := range s.staging {
		cost := in.groups.Costs()
		r := StagingReport{Counts: s.total(i), Strategy: cost.Strategy, BytesRead: cost.Read, ReadAgain: cost.ReadAgain, SpilledBytes: cost.Spilled}
		if cost.Stored > 0 {
			r.Amplification = float64(cost.Read) / float64(cost.Stored)
		}
		byName[in.rule.Name] = r
	}
	return byName
}

// dividedRequests returns the number of requests that windows and ranges have divided
// so far.
func (s *ranges) dividedRequests() int64 {
	divided := s.divided
	for _, o := range s.open {
		if o.shuffle != nil {
			divided += o.shuffle.Divided()
		}
	}
	return divided
}

// Report implements Stream.
func (s *stream) Report() Report {
	r := Report{
		Rows: s.rows, Batches: s.batchesDone(), Steps: s.stepsDone(), Skipped: s.skippedSoFar(), Leftover: []Leftover{}, Cursor: s.Cursor(),
		Sample: json.RawMessage(s.plan.Rows.Sample.Canonical()), Staging: s.ranges.report(), Divided: s.ranges.dividedRequests(),
	}
	for i, sent := range s.sentSoFar() {
		r.indexed(s.form.indexed[i], sent)
		if s.reading.Wire.Auto() {
			r.Indexed = append(r.Indexed, s.form.indexed[i].Name)
		}
	}
	if s.plan.Rows.Requests {
		r.Requests = s.amount
	}
	if !s.reading.Tail.Drops() {
		return r
	}
	for _, l := range s.start.lanes {
		switch left := s.start.counts.Lanes[l.Number] - r.Cursor.Given; {
		case left <= 0:
		case s.plan.Rows.Requests:
			r.Leftover = append(r.Leftover, Leftover{Lane: l.Number, Requests: left})
		default:
			r.Leftover = append(r.Leftover, Leftover{Lane: l.Number, Rows: left})
		}
	}
	return r
}

// indexed adds the number of distinct rows sent of an indexed column.
func (r *Report) indexed(of resolve.Indexed, sent int64) {
	ratio := 0.0
	if sent > 0 {
		ratio = float64(r.Rows) / float64(sent)
	}
	if of.Table == resolve.RequestTable {
		r.Request = &RequestReport{Sent: sent, Ratio: ratio}
		return
	}
	staging := r.Staging[of.Name]
	staging.Sent, staging.Ratio = sent, ratio
	r.Staging[of.Name] = staging
}
