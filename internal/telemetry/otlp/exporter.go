package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync/atomic"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/trace"
)

const (
	// maxQueued is the maximum number of spans that were taken and not sent.
	maxQueued = 8 << 10
	// maxTraces is the maximum number of traces in the queue.
	maxTraces = 1 << 10
	// maxSent is the number of spans after which a message is sent, and linger how long a message waits for further spans.
	maxSent = 512
	linger  = time.Second
	// timeout is how long a collector may take to answer, and the waits between attempts after a failure double from firstWait to
	// longestWait.
	timeout                = 10 * time.Second
	firstWait, longestWait = time.Second, 30 * time.Second
	// method is the call that takes spans.
	method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
)

// Options configure an Exporter.
type Options struct {
	Address string            // host:port of the collector
	CA      *x509.CertPool    // of the collector's certificate, with TLS; nil stands for the CAs of the system
	TLS     bool              // the connection is encrypted, and the collector's certificate is checked
	Headers map[string]string // of each call, such as those with credentials
	Version string            // of the program
	Budget  *budget.Budget    // the memory of the queue is reserved here; nil: unlimited
	Logger  *slog.Logger
}

// Stats counts spans.
type Stats struct {
	Sent    int64 // the collector has accepted them
	Dropped int64 // the queue was full
	Failed  int64 // the collector did not answer or refused them
	Queued  int64 // they were taken and not sent yet
}

// Exporter sends traces to a collector. It implements trace.Sink, and is safe for concurrent use.
type Exporter struct {
	options Options
	conn    *grpc.ClientConn
	held    *budget.Reservation
	queue   chan trace.Trace
	ended   chan struct{} // closed when nothing is sent any more
	end     func()        // makes run end

	sent, dropped, failed, queued atomic.Int64
}

// New returns an Exporter. It connects when it sends the first span. The caller closes it.
func New(o Options) (*Exporter, error) {
	held, err := o.Budget.Reserve("the queue of traces", maxQueued*trace.SpanBytes)
	if err != nil {
		return nil, err
	}
	security := insecure.NewCredentials()
	if o.TLS {
		security = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.CA})
	}
	conn, err := grpc.NewClient("passthrough:///"+o.Address, grpc.WithTransportCredentials(security), grpc.WithUserAgent("penstock/"+o.Version))
	if err != nil {
		held.Release()
		return nil, fault.New(fault.Invalid, "connect to the collector of traces: %w", err)
	}
	e := &Exporter{options: o, conn: conn, held: held, queue: make(chan trace.Trace, maxTraces), ended: make(chan struct{})}
	life, end := context.WithCancel(context.Background())
	e.end = end
	go e.run(life)
	return e, nil
}

// Take implements trace.Sink. After Close has returned, it drops the trace.
func (e *Exporter) Take(of trace.Trace) {
	n := int64(len(of.Spans))
	if e.queued.Add(n) <= maxQueued {
		select {
		case e.queue <- of:
			return
		default:
		}
	}
	e.queued.Add(-n)
	e.dropped.Add(n)
}

// Stats returns the counts so far.
func (e *Exporter) Stats() Stats {
	return Stats{Sent: e.sent.Load(), Dropped: e.dropped.Load(), Failed: e.failed.Load(), Queued: e.queued.Load()}
}

// Close sends the spans of the queue until ctx ends, drops the rest, and closes the connection.
func (e *Exporter) Close(ctx context.Context) {
	e.end()
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
	_ = e.conn.Close() // ends a call that runs
	<-e.ended
	e.held.Release()
}

// run sends traces until life ends, and then those of the queue.
func (e *Exporter) run(life context.Context) {
	defer close(e.ended)
	failures := 0
	for {
		batch, more := e.next(life)
		if len(batch) > 0 {
			failures = e.deliver(batch, failures) //nolint:contextcheck // the last messages are sent after life has ended
		}
		if !more {
			return
		}
		_ = backoff.Wait(life, failures, firstWait, longestWait)
	}
}

// next waits for traces, and returns those of the next message. It reports whether there may be more.
func (e *Exporter) next(life context.Context) (batch []trace.Trace, more bool) {
	select {
	case first := <-e.queue:
		batch = append(batch, first)
	case <-life.Done():
		return e.rest(nil)
	}
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for spans := len(batch[0].Spans); spans < maxSent; {
		select {
		case one := <-e.queue:
			batch, spans = append(batch, one), spans+len(one.Spans)
		case <-timer.C:
			return batch, true
		case <-life.Done():
			return e.rest(batch)
		}
	}
	return batch, true
}

// rest adds traces of the queue to a message without waiting, and reports whether there are more.
func (e *Exporter) rest(batch []trace.Trace) ([]trace.Trace, bool) {
	spans := 0
	for _, one := range batch {
		spans += len(one.Spans)
	}
	for spans < maxSent {
		select {
		case one := <-e.queue:
			batch, spans = append(batch, one), spans+len(one.Spans)
		default:
			return batch, false
		}
	}
	return batch, true
}

// deliver sends a message, and returns the number of consecutive failures.
func (e *Exporter) deliver(batch []trace.Trace, failures int) int {
	request, n := e.request(batch), int64(0)
	for _, one := range batch {
		n += int64(len(one.Spans))
	}
	defer e.queued.Add(-n)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(e.options.Headers))
	var answer collector.ExportTraceServiceResponse
	if err := e.conn.Invoke(ctx, method, request, &answer); err != nil {
		e.failed.Add(n)
		if failures == 0 {
			e.options.Logger.Warn("traces cannot be sent, and are dropped until they can", "collector", e.options.Address, "error", err)
		}
		return failures + 1
	}
	refused := min(n, answer.GetPartialSuccess().GetRejectedSpans())
	e.sent.Add(n - refused)
	e.failed.Add(refused)
	if failures > 0 {
		e.options.Logger.Info("traces are sent again", "collector", e.options.Address)
	}
	return 0
}
