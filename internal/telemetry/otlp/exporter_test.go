package otlp_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/telemetry/otlp"
	"github.com/penstock/penstock/internal/telemetry/otlp/otlptest"
	"github.com/penstock/penstock/internal/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a log that several goroutines write.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.String(), text)
}

// open opens an exporter to an address.
func open(t *testing.T, address string, o otlp.Options) (*otlp.Exporter, *output) {
	t.Helper()
	log := &output{}
	o.Address, o.Version, o.Logger = address, "1.2.3", slog.New(slog.NewTextHandler(log, nil))
	e, err := otlp.New(o)
	require.NoError(t, err)
	return e, log
}

// closeWithin closes an exporter.
func closeWithin(t *testing.T, e *otlp.Exporter, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	e.Close(ctx)
}

// traceOf returns a trace with a number of spans.
func traceOf(spans int) trace.Trace {
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	out := trace.Trace{ID: trace.ID{1, 2}}
	for i := range spans {
		s := trace.Span{Kind: trace.Wait, ID: trace.SpanID{byte(i + 1)}, Parent: trace.SpanID{1}, Begin: at, End: at.Add(time.Second)}
		if i == 0 {
			s.Kind, s.Parent, s.Failed, s.Links = trace.Step, trace.SpanID{}, true, []trace.Link{{Trace: trace.ID{3}, Span: trace.SpanID{4}}}
			s.Attributes = []trace.Attribute{{Key: trace.Dataset, Text: "d"}, {Key: trace.Shard}, {Key: trace.Rows, Number: 7}, {Key: trace.Plan}}
		}
		out.Spans = append(out.Spans, s)
	}
	return out
}

// TestSpansReachTheCollector checks the content of a message.
func TestSpansReachTheCollector(t *testing.T) {
	c := otlptest.Start(t)
	memory := budget.New(8 << 20)
	e, _ := open(t, c.Address, otlp.Options{Budget: memory, Headers: map[string]string{"authorization": "Bearer s3cret"}})
	require.EqualValues(t, 4<<20, memory.Used())
	e.Take(traceOf(2))
	closeWithin(t, e, time.Minute)
	require.Zero(t, memory.Used())
	require.Equal(t, []string{"Bearer s3cret"}, c.Headers().Get("authorization"))
	at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC).Local()
	const id = "01020000000000000000000000000000"
	require.Equal(t, []otlptest.Span{
		{
			Trace: id, ID: "0100000000000000", Name: "penstock.step", Begin: at, End: at.Add(time.Second), Failed: true,
			Texts: map[string]string{"penstock.dataset": "d"}, Numbers: map[string]int64{"penstock.shard": 0, "penstock.rows": 7},
			Links: []otlptest.Link{{Trace: "03000000000000000000000000000000", Span: "0400000000000000"}},
		},
		{Trace: id, ID: "0200000000000000", Parent: "0100000000000000", Name: "penstock.wait", Begin: at, End: at.Add(time.Second), Texts: map[string]string{}, Numbers: map[string]int64{}},
	}, c.Spans())
	require.Contains(t, c.Text(), `service.version`)
	require.Equal(t, otlp.Stats{Sent: 2}, e.Stats())
}

// TestDeadCollectorCostsSpans has collectors that are not there, that do not answer, and that refuse.
func TestDeadCollectorCostsSpans(t *testing.T) {
	gone, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	silent, refuses := otlptest.Start(t), otlptest.Start(t)
	silent.Answer(func(ctx context.Context) (int64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	refuses.Answer(func(context.Context) (int64, error) { return 0, status.Error(codes.Unauthenticated, "no") })
	for name, address := range map[string]string{"gone": gone.Addr().String(), "silent": silent.Address, "refuses": refuses.Address} {
		t.Run(name, func(t *testing.T) {
			e, log := open(t, address, otlp.Options{})
			const traces, each = 3000, 100
			for range traces { // far more than the queue holds
				e.Take(traceOf(each))
			}
			s := e.Stats()
			require.LessOrEqual(t, s.Queued, int64(8<<10))
			require.Positive(t, s.Dropped)
			closeWithin(t, e, 100*time.Millisecond)
			s = e.Stats()
			require.Zero(t, s.Sent)
			require.Zero(t, s.Queued)
			require.EqualValues(t, traces*each, s.Dropped+s.Failed)
			require.Equal(t, 1, log.count("traces cannot be sent"), "it warns once")
		})
	}
}

// TestRejectedSpansAreCounted has a collector that rejects some spans of a message.
func TestRejectedSpansAreCounted(t *testing.T) {
	c := otlptest.Start(t)
	c.Answer(func(context.Context) (int64, error) { return 3, nil })
	e, _ := open(t, c.Address, otlp.Options{})
	e.Take(traceOf(5))
	closeWithin(t, e, time.Minute)
	require.Equal(t, otlp.Stats{Sent: 2, Failed: 3}, e.Stats())
}

// TestQueueNeedsMemory opens an exporter within a budget that is too small.
func TestQueueNeedsMemory(t *testing.T) {
	_, err := otlp.New(otlp.Options{Address: "127.0.0.1:1", Budget: budget.New(1 << 20), Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "the queue of traces")
}
