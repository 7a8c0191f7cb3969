package trace_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/trace"
)

// A tracer keeps as many spans as its owner has reserved memory for. Those that are exported, dropped or forgotten make room for
// others.
//
// spec: trace-9
func TestSpansAreBounded(t *testing.T) {
	k := newKit(1)
	k.Tracer = trace.New(trace.Options{Every: 1, Clock: k.now, Sink: k, Spans: 3})
	ctx, steps := k.Stream(t.Context(), trace.StreamOptions{First: 1, By: 1})
	track := trace.Of(ctx)
	track.Enter(trace.Cut).End(nil)
	track.Enter(trace.Cut).End(nil)
	require.Nil(t, track.Enter(trace.Cut), "the step and two spans are kept")
	_, ahead := trace.Ahead(ctx, trace.Decode)
	require.Nil(t, ahead.Enter(trace.Request), "there is no room for the unit")
	unit := ahead.Finish(nil)
	require.Nil(t, unit)
	track.Use(unit)
	steps.Next(1, 1, 1)
	require.Len(t, k.traces, 1)
	require.Len(t, k.traces[0].Spans, 3)
	require.Contains(t, k.traces[0].Spans[0].Attributes, trace.Attribute{Key: trace.Dropped, Number: 1})

	track.Enter(trace.Cut).End(nil) // the next step has room again
	steps.Next(2, 1, 1)
	require.Len(t, k.traces[1].Spans, 2)
	steps.End(nil)

	func() { // unused units
		_, forgotten := trace.Ahead(ctx, trace.Decode)
		forgotten.Enter(trace.Request).End(nil)
		forgotten.Finish(nil)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		_, other := k.Stream(t.Context(), trace.StreamOptions{First: 3, By: 1})
		other.Next(3, 1, 1)
		other.End(nil)
		return len(k.traces) > 2
	}, time.Minute, time.Millisecond)
}
