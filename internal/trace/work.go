package trace

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxSpans and maxLinks bound the spans and the links of one trace.
const (
	maxSpans = 128
	maxLinks = 128
)

// Work is a trace in the making: a step, or a unit of work that is done ahead. It is safe for concurrent use. A nil *Work has no
// effect.
type Work struct {
	Link     // to its first span
	step     bool
	recorder *Tracer

	mu      sync.Mutex
	spans   []span // the first one is the root
	open    []int  // indices of the spans that were entered and have not ended, the innermost last
	links   []Link
	dropped int64
	// taken is set once the spans were given to the sink (exported) or dropped; further spans are then dropped.
	taken, exported bool
	kept            *atomic.Int64 // spans, of those that the Tracer counts
}

// span is a span of a Work.
type span struct {
	kind       Kind
	parent     int // index in Work.spans
	begin, end time.Time
	failed     bool
	attributes []Attribute
}

// newWork begins a trace. It returns nil if there is no room for its first span.
func newWork(t *Tracer, at Link, kind Kind, begin time.Time) *Work {
	w := &Work{Link: at, step: kind == Step, recorder: t, kept: new(atomic.Int64)}
	if !w.keep() {
		return nil
	}
	w.spans, w.open = []span{{kind: kind, parent: -1, begin: begin}}, []int{0}
	// Unused results, such as those that a closed scan has decoded ahead, are never dropped.
	runtime.AddCleanup(w, t.free, w.kept)
	return w
}

// keep makes room for one more span, and reports whether there is some.
func (w *Work) keep() bool {
	if w.recorder.held.Add(1) > w.recorder.options.Spans {
		w.recorder.held.Add(-1)
		return false
	}
	w.kept.Add(1)
	return true
}

// add adds a span below the innermost open one, and returns its index, or false if the trace has too many spans.
func (w *Work) add(s span, enter bool) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken || len(w.spans) == maxSpans || !w.keep() {
		w.dropped++
		return 0, false
	}
	s.parent = w.innermost()
	w.spans = append(w.spans, s)
	at := len(w.spans) - 1
	if enter {
		w.open = append(w.open, at)
	}
	return at, true
}

// innermost returns the index of the innermost open span. w.mu is held.
func (w *Work) innermost() int {
	if len(w.open) == 0 {
		return 0
	}
	return w.open[len(w.open)-1]
}

// leave ends a span that was entered, and the spans that were entered within it.
func (w *Work) leave(at int, end time.Time, failed bool, attributes []Attribute) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken {
		return
	}
	for i, open := range w.open {
		if open == at {
			w.open = w.open[:i]
			break
		}
	}
	s := &w.spans[at]
	s.end, s.failed, s.attributes = end, failed, attributes
}

// wait adds a wait, or extends the last span if it is a wait for the same cause that ended at the same time.
func (w *Work) wait(begin, end time.Time, why Attribute) {
	if !w.extend(begin, end, why) {
		w.add(span{kind: Wait, begin: begin, end: end, attributes: []Attribute{why}}, false)
	}
}

// extend extends the last span, and reports whether it did.
func (w *Work) extend(begin, end time.Time, why Attribute) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spans) == 0 {
		return false
	}
	last := &w.spans[len(w.spans)-1]
	if last.kind != Wait || !last.end.Equal(begin) || last.parent != w.innermost() || last.attributes[0] != why {
		return false
	}
	last.end = end
	return true
}

// finish ends a trace.
func (w *Work) finish(end time.Time, failed bool, attributes []Attribute) {
	w.leave(0, end, failed, attributes)
}

// refer adds a link to another trace.
func (w *Work) refer(to Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.links) < maxLinks {
		w.links = append(w.links, to)
	}
}

// absorb adds the spans of a unit of work below the innermost open span.
func (w *Work) absorb(from *Work) {
	from.mu.Lock()
	spans := from.spans
	from.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	first, below := len(w.spans), w.innermost()
	for i, s := range spans {
		if w.taken || len(w.spans) == maxSpans || !w.keep() {
			w.dropped += int64(len(spans) - i)
			return
		}
		if s.parent < 0 {
			s.parent = below
		} else {
			s.parent += first
		}
		w.spans = append(w.spans, s)
	}
}

// drop frees the spans of a trace that was not exported, and will not be.
func (w *Work) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken, w.spans, w.open, w.links = true, nil, nil, nil
	w.recorder.free(w.kept)
}

// export gives the trace to the sink, unless the sink has it or it was dropped. It reports whether the sink has it.
func (w *Work) export() bool {
	w.mu.Lock()
	if w.taken {
		defer w.mu.Unlock()
		return w.exported
	}
	w.taken, w.exported = true, true
	out := Trace{ID: w.Trace, Spans: make([]Span, len(w.spans))}
	for i, s := range w.spans {
		one := Span{Kind: s.kind, ID: randomSpan(), Begin: s.begin, End: s.end, Failed: s.failed, Attributes: s.attributes}
		if one.End.IsZero() { // it did not end before the trace
			one.End = w.spans[0].end
		}
		if i == 0 {
			one.ID, one.Links = w.Span, w.links
			if w.dropped > 0 {
				one.Attributes = append(one.Attributes, Attribute{Key: Dropped, Number: w.dropped})
			}
		} else {
			one.Parent = out.Spans[s.parent].ID
		}
		out.Spans[i] = one
	}
	w.spans, w.open, w.links = nil, nil, nil
	w.mu.Unlock()
	w.recorder.options.Sink.Take(out)
	w.recorder.free(w.kept)
	return true
}
