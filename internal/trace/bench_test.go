package trace_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/trace"
)

// nowhere is a sink that drops traces.
type nowhere struct{}

// Take implements trace.Sink.
func (nowhere) Take(trace.Trace) {}

// BenchmarkStep measures what a step costs that uses a decoded batch, with a join, a cut, a request and the batch's unit: without
// traces, if it is not traced, and if it is.
func BenchmarkStep(b *testing.B) {
	for name, t := range map[string]*trace.Tracer{
		"off":    nil,
		"passed": trace.New(trace.Options{Every: 1 << 40, Clock: time.Now, Sink: nowhere{}, Spans: 1 << 20}),
		"traced": trace.New(trace.Options{Every: 1, Clock: time.Now, Sink: nowhere{}, Spans: 1 << 20}),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, steps := t.Stream(b.Context(), trace.StreamOptions{First: 1, By: 1})
			ahead, scan := trace.Ahead(ctx, trace.Decode)
			step := int64(0)
			for b.Loop() {
				trace.Of(ahead).Begin(trace.Request).End(nil)
				unit := scan.Finish(nil, trace.Attribute{Key: trace.Rows, Number: 1})
				join := trace.Of(ctx).Enter(trace.Join)
				trace.Of(ctx).Use(unit)
				join.End(nil)
				trace.Of(ctx).Enter(trace.Cut).End(nil)
				step++
				steps.Next(step, 1, 1)
			}
		})
	}
}
