package s3_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/trace"
)

// traces are the traces of a test.
type traces []trace.Trace

// Take implements trace.Sink.
func (t *traces) Take(of trace.Trace) { *t = append(*t, of) }

// TestEachTryIsASpan has a read that needs three requests, in a step that is traced.
func TestEachTryIsASpan(t *testing.T) {
	f := newFake(t, digits(100))
	f.answers = map[int]http.HandlerFunc{1: said(503, "SlowDown"), 2: said(500, "InternalError")}
	o, err := f.open(t, nil).Open(t.Context(), location, 100)
	require.NoError(t, err)
	var got traces
	ctx, steps := trace.New(trace.Options{Every: 1, Clock: time.Now, Sink: &got, Spans: 1 << 10}).Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	require.NoError(t, o.ReadAt(ctx, memory.NewBufferBytes(make([]byte, 50)), 0))
	steps.Next(1, 1, 1)
	require.NoError(t, o.Close())
	require.Len(t, got, 1)
	var outcomes []string
	var bytes []int64
	for _, s := range got[0].Spans[1:] {
		require.Equal(t, trace.Request, s.Kind)
		require.Equal(t, got[0].Spans[0].ID, s.Parent)
		for _, a := range s.Attributes {
			switch a.Key {
			case trace.Outcome:
				outcomes = append(outcomes, a.Text)
				require.Equal(t, a.Text != "ok", s.Failed)
			case trace.Bytes:
				bytes = append(bytes, a.Number)
			}
		}
		require.Contains(t, s.Attributes, trace.Attribute{Key: trace.Store, Text: "s3"})
		require.Contains(t, s.Attributes, trace.Attribute{Key: trace.Operation, Text: "read"})
		require.Contains(t, s.Attributes, trace.FileOf(location))
	}
	require.Equal(t, []string{"throttled", "failed", "ok"}, outcomes)
	require.Equal(t, []int64{0, 0, 50}, bytes)
}
