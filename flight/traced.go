package flight

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
)

// headerTraceparent is the header of W3C Trace Context. A DoGet with this header agrees with its client on the ids of traces.
const headerTraceparent = "traceparent"

// trace begins to trace the stream. It returns a context in which the steps are recorded that are traced.
func (one *runningStream) trace(ctx context.Context, by *trace.Tracer, of ticket.Content) context.Context {
	o := trace.StreamOptions{Plan: of.Plan, Shard: one.query.Shard.Index, Part: of.Part != nil, ID: one.id, Dataset: one.query.Dataset}
	if values := metadata.ValueFromIncomingContext(ctx, headerTraceparent); len(values) == 1 {
		o.Parent = values[0]
	}
	o.First, o.By = one.sent.step.Load()+int64(one.query.Every.Step)+1, int64(max(1, one.query.Every.Of))
	ctx, one.steps = by.Stream(ctx, o)
	if one.steps != nil {
		one.waits.Observe(func(c waits.Cause, begin, end time.Time) { one.steps.Waited(c.String(), begin, end) })
	}
	return ctx
}

// endStep ends a step whose batch was delivered with a cursor.
func (one *runningStream) endStep(cursor, rows, bytes int64) {
	if one.steps != nil {
		one.waits.Now() // counts a wait of another goroutine that goes on in the next step
		one.steps.Next(cursor, rows, bytes)
	}
}
