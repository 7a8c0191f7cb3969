package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/fault"
)

// Stall is a trainer's report of how long it waited for the batches of a stream. The server itself
// cannot measure that: it sees only how long a client reads nothing.
type Stall struct {
	Dataset string // "" if the query carried it
	Plan    string // of the stream, for logs
	Rows    int64  // received
	Batches int64
	Took    time.Duration
	Waited  time.Duration // of Took
}

const (
	// maxReported bounds the time of one report, so that sums do not overflow.
	maxReported = 30 * 24 * time.Hour
	// maxCounted bounds the rows and batches of one report: metrics are floats, which are exact up
	// to this number.
	maxCounted = 1 << 53
)

// stallReport is the body of the action.
type stallReport struct {
	Dataset string  `json:"dataset"`
	Plan    string  `json:"plan"`
	Rows    int64   `json:"rows"`
	Batches int64   `json:"batches"`
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// stall passes a trainer's report to the observer. It refuses a dataset that does not exist:
// clients could otherwise invent datasets, and thus labels of metrics.
func (s *service) stall(_ context.Context, c *call.Call, body []byte) ([]byte, error) {
	var r stallReport
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, fault.InvalidField("body", "%v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fault.InvalidField("body", "there is data after the object")
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := s.requireDataset(c, r.Dataset); err != nil {
		return nil, err
	}
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	s.options.Observer.Stalled(Stall{
		Dataset: r.Dataset, Plan: r.Plan, Rows: r.Rows, Batches: r.Batches, Took: seconds(r.Seconds), Waited: seconds(r.Waited),
	})
	return []byte("{}"), nil
}

// validate returns an Invalid error for values that no stream can have.
func (r stallReport) validate() error {
	var faults []fault.Field
	refuse := func(field, format string, args ...any) {
		faults = append(faults, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	count := func(field string, n int64) {
		if n < 0 || n > maxCounted {
			refuse(field, "%d is not from 0 to %d", n, int64(maxCounted))
		}
	}
	count("rows", r.Rows)
	count("batches", r.Batches)
	if r.Seconds < 0 || r.Seconds > maxReported.Seconds() {
		refuse("seconds", "%v is not from 0 to %v", r.Seconds, maxReported.Seconds())
	} else if r.Waited < 0 || r.Waited > r.Seconds {
		refuse("waited", "%v is not from 0 to the seconds, %v", r.Waited, r.Seconds)
	}
	return fault.Fields(faults)
}

// requireDataset returns a NotFound error for a dataset that is not configured, or that the caller may not read.
func (s *service) requireDataset(c *call.Call, name string) error {
	if name == "" {
		return nil
	}
	_, _, err := s.guard.Readable(c, name)
	return err
}
