package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Stall is what a trainer tells of a stream that it reads: how long it waited for
// batches. A server sees only that a client takes its time.
type Stall struct {
	Dataset string // "" for one given inline
	Plan    string // the stream's, for logs
	Rows    int64  // that came
	Batches int64
	Took    time.Duration
	Waited  time.Duration // of Took
}

// mostTold is the longest time that one telling is of: nobody trains for longer
// without a word, and sums must not run over.
const mostTold = 30 * 24 * time.Hour

// mostCounted is the largest number of rows and batches that one telling counts:
// exact as a float, which metrics are.
const mostCounted = 1 << 53

// told is the body of the action.
type told struct {
	Dataset string  `json:"dataset"`
	Plan    string  `json:"plan"`
	Rows    int64   `json:"rows"`
	Batches int64   `json:"batches"`
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"`
}

// stall counts what a trainer tells. All of it is the client's word: a dataset that
// there is not would be a label that clients make, so it is refused.
func (s *service) stall(_ context.Context, body []byte) ([]byte, error) {
	var t told
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return nil, fault.InvalidField("body", "%v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fault.InvalidField("body", "there is more behind the object")
	}
	if err := t.possible(); err != nil {
		return nil, err
	}
	if err := s.has(t.Dataset); err != nil {
		return nil, err
	}
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	s.options.Observer.Stalled(Stall{
		Dataset: t.Dataset, Plan: t.Plan, Rows: t.Rows, Batches: t.Batches, Took: seconds(t.Seconds), Waited: seconds(t.Waited),
	})
	return []byte("{}"), nil
}

// possible returns an Invalid error unless a stream can have gone so.
func (t told) possible() error {
	var faults []fault.Field
	refuse := func(field, format string, args ...any) {
		faults = append(faults, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	count := func(field string, n int64) {
		if n < 0 || n > mostCounted {
			refuse(field, "%d is not from 0 to %d", n, int64(mostCounted))
		}
	}
	count("rows", t.Rows)
	count("batches", t.Batches)
	if t.Seconds < 0 || t.Seconds > mostTold.Seconds() {
		refuse("seconds", "%v is not from 0 to %v", t.Seconds, mostTold.Seconds())
	} else if t.Waited < 0 || t.Waited > t.Seconds {
		refuse("waited", "%v is not from 0 to the seconds, %v", t.Waited, t.Seconds)
	}
	return fault.Fields(faults)
}

// has returns NotFound unless a dataset is configured, or none is named.
func (s *service) has(name string) error {
	if name == "" {
		return nil
	}
	var known []string
	for _, d := range s.options.Loader.Datasets() {
		if d.Name == name {
			return nil
		}
		known = append(known, d.Name)
	}
	return dataset.Unknown(name, known)
}
