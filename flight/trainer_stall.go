package flight

import (
	"context"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/loader/dataset/decode"
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

// stall passes a trainer's report to the observer. It refuses a dataset that does not exist:
// clients could otherwise invent datasets, and thus labels of metrics.
func (s *service) stall(_ context.Context, c *call.Call, body []byte) ([]byte, error) {
	r, err := decode.Stall(body)
	if err != nil {
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

// requireDataset returns a NotFound error for a dataset that is not configured, or that the caller may not read.
func (s *service) requireDataset(c *call.Call, name string) error {
	if name == "" {
		return nil
	}
	_, _, err := s.guard.Readable(c, name)
	return err
}
