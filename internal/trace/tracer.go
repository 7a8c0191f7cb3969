package trace

import (
	"context"
	"sync/atomic"
	"time"
)

// Span is a span of a finished trace.
type Span struct {
	Kind       Kind
	ID, Parent SpanID // Parent is zero for the first span of a trace
	Begin, End time.Time
	Failed     bool
	Attributes []Attribute
	Links      []Link
}

// Trace is a finished trace. Its first span is the root of the others.
type Trace struct {
	ID    ID
	Spans []Span
}

// Sink gets finished traces. It is called from many goroutines and must not block.
type Sink interface {
	Take(of Trace)
}

// Options configure a Tracer.
type Options struct {
	Every int64            // the number of steps of which one is traced, at least 1
	Clock func() time.Time // its times have the wall clock
	Sink  Sink
	// Spans is the maximum number of spans that the Tracer keeps: those of steps and units that were not given to Sink, and are in
	// use. Further spans are dropped. The caller has reserved Spans times SpanBytes of memory.
	Spans int64
}

// SpanBytes is an upper estimate of the memory of a span.
const SpanBytes = 512

// Tracer makes the traces of a server. It is safe for concurrent use. A nil *Tracer makes none.
type Tracer struct {
	options Options
	held    atomic.Int64 // spans that are kept
}

// New returns a Tracer.
func New(o Options) *Tracer { return &Tracer{options: o} }

func (t *Tracer) now() time.Time { return t.options.Clock() }

// free gives the room of spans back.
func (t *Tracer) free(kept *atomic.Int64) { t.held.Add(-kept.Swap(0)) }

// StreamOptions describe a stream.
type StreamOptions struct {
	Parent  string // the traceparent header of its call; "": none
	Plan    string // id
	Shard   int
	Part    bool   // it reads only some splits of its shard, so that other streams have steps of the same numbers
	First   int64  // the number of its first step
	By      int64  // the difference of the numbers of its steps
	ID      string // for the attribute Stream
	Dataset string // for the attribute Dataset
}

// Steps traces the steps of one stream. It belongs to one goroutine, except for Waited. A nil *Steps traces nothing.
type Steps struct {
	options StreamOptions
	track   *Track
	opened  Link // the ids of traces follow from it
	parent  bool // opened is the span of the call's traceparent
	step    int64
}

// Stream begins to trace a stream, with its first step. It returns a context with a Track. If the caller of the stream has decided
// not to record its trace, nothing is traced.
func (t *Tracer) Stream(ctx context.Context, o StreamOptions) (context.Context, *Steps) {
	if t == nil {
		return ctx, nil
	}
	s := &Steps{options: o, track: &Track{tracer: t, kind: Step}, opened: randomLink(), step: o.First}
	if parent, ok := ParseParent(o.Parent); ok {
		if !parent.Sampled {
			return ctx, nil
		}
		if !o.Part {
			s.opened, s.parent = parent.Link, true
		}
	}
	s.begin()
	return with(ctx, s.track), s
}

// begin begins the current step, if it is traced.
func (s *Steps) begin() {
	t := s.track.tracer
	if s.step%t.options.Every != 0 {
		s.track.work.Store(nil)
		return
	}
	id := StepTrace(s.opened, s.step)
	w := newWork(t, Link{id, StepSpan(id, s.options.Plan, s.options.Shard)}, Step, t.now())
	if s.parent && w != nil {
		w.links = append(w.links, s.opened)
	}
	s.track.work.Store(w)
}

// Next ends the current step, whose batch was delivered with a cursor, and begins the next one. The step is not exported if it does
// not have the expected number.
func (s *Steps) Next(cursor, rows, bytes int64) {
	if s == nil {
		return
	}
	if w := s.track.now(); w != nil && cursor == s.step {
		s.end(w, nil, Attribute{Key: Rows, Number: rows}, Attribute{Key: Bytes, Number: bytes})
	}
	s.step = cursor + s.options.By
	s.begin()
}

// End ends the stream, in a step that has no batch. The step is exported if it failed.
func (s *Steps) End(err error) {
	if s == nil {
		return
	}
	if w := s.track.now(); w != nil && err != nil {
		s.end(w, err)
	}
	s.track.work.Store(nil)
}

// end ends and exports a step.
func (s *Steps) end(w *Work, err error, attributes ...Attribute) {
	w.finish(s.track.tracer.now(), err != nil, append(attributes,
		Attribute{Key: Dataset, Text: s.options.Dataset}, Attribute{Key: Stream, Text: s.options.ID}, Attribute{Key: Plan, Text: s.options.Plan},
		Attribute{Key: Shard, Number: int64(s.options.Shard)}, Attribute{Key: Number, Number: s.step},
	))
	w.export()
}

// Waited records that the stream has waited, if the current step is traced. The cause is a name of package waits. Any goroutine may
// call it.
func (s *Steps) Waited(cause string, begin, end time.Time) {
	if w := s.track.now(); w != nil {
		w.wait(begin, end, Attribute{Key: Cause, Text: cause})
	}
}
