package trace

import (
	"context"
	"path"
	"sync/atomic"
)

// Track is where the code of a context records spans: the step of a stream, if it is traced, or the current unit of work that is
// done ahead. It is safe for concurrent use, but only one goroutine enters spans. A nil *Track records nothing.
type Track struct {
	tracer *Tracer
	kind   Kind // of the units
	work   atomic.Pointer[Work]
}

// trackKey is the key of a context's Track.
type trackKey struct{}

func with(ctx context.Context, t *Track) context.Context {
	return context.WithValue(ctx, trackKey{}, t)
}

// Of returns the Track of a context; nil if it has none.
func Of(ctx context.Context) *Track {
	t, _ := ctx.Value(trackKey{}).(*Track)
	return t
}

// now returns the trace in which the track records at the moment; nil: none.
func (t *Track) now() *Work {
	if t == nil {
		return nil
	}
	return t.work.Load()
}

// Ahead returns a context for work that is done ahead of the steps that use its results, and its Track, which has begun a unit. The
// Track is nil if ctx has none.
func Ahead(ctx context.Context, kind Kind) (context.Context, *Track) {
	of := Of(ctx)
	if of == nil {
		return ctx, nil
	}
	t := &Track{tracer: of.tracer, kind: kind}
	t.Restart()
	return with(ctx, t), t
}

// Restart makes the current unit begin now. It drops what was recorded in it.
func (t *Track) Restart() {
	if t != nil {
		t.work.Store(newWork(t.tracer, randomLink(), t.kind, t.tracer.now()))
	}
}

// Finish ends the current unit, begins the next one, and returns the unit, for Use.
func (t *Track) Finish(err error, attributes ...Attribute) *Work {
	if t == nil {
		return nil
	}
	now := t.tracer.now()
	w := t.work.Swap(newWork(t.tracer, randomLink(), t.kind, now))
	if w == nil {
		return nil
	}
	w.finish(now, err != nil, attributes)
	return w
}

// Use records that the code of a track uses the result of a unit of work. A step that is traced gets a link to the unit, which is
// exported. Another unit of work gets the unit's spans. If a step that is not traced is the first to use the unit, the unit is dropped.
func (t *Track) Use(unit *Work) {
	if t == nil || unit == nil {
		return
	}
	switch w := t.now(); {
	case w == nil:
		unit.drop()
	case !w.step:
		w.absorb(unit)
	case unit.export():
		w.refer(unit.Link)
	}
}

// Here returns a link to the step that the track records; zero if it records none.
func (t *Track) Here() Link {
	if w := t.now(); w != nil {
		return w.Link
	}
	return Link{}
}

// Refer records that the code of a track uses the result of a step of another stream, unless the link is zero or that of the track.
func (t *Track) Refer(to Link) {
	if w := t.now(); w != nil && to != (Link{}) && to != w.Link {
		w.refer(to)
	}
}

// Apart returns a context with a track that records nothing until Lend. It is for a reader that works for several streams in turn.
func Apart(ctx context.Context) context.Context {
	of := Of(ctx)
	if of == nil {
		return ctx
	}
	return with(ctx, &Track{tracer: of.tracer})
}

// Lend makes a track of Apart record in the trace of another track until the end, for which it works meanwhile.
func (t *Track) Lend(to *Track) (end func()) {
	if t == nil || to == nil {
		return func() {}
	}
	to.work.Store(t.now())
	return func() { to.work.Store(nil) }
}

// Part is a span that has begun. A nil *Part has no effect.
type Part struct {
	track   *Track
	work    *Work
	at      int // index in work.spans if it was entered
	entered bool
	begun   span
}

// Enter begins a span. Spans that begin before its end are nested in it. Only the goroutine that owns the track may call Enter. The
// caller calls End once.
func (t *Track) Enter(kind Kind) *Part {
	w := t.now()
	if w == nil {
		return nil
	}
	at, ok := w.add(span{kind: kind, begin: t.tracer.now()}, true)
	if !ok {
		return nil
	}
	return &Part{work: w, track: t, at: at, entered: true}
}

// Begin begins a span in which no other spans are nested. Any goroutine may call it. The span belongs to the unit of work in which it
// ends. The caller calls End once.
func (t *Track) Begin(kind Kind) *Part {
	if t.now() == nil {
		return nil
	}
	return &Part{track: t, begun: span{kind: kind, begin: t.tracer.now()}}
}

// End ends a span. err is the error of what it measures, or nil.
func (p *Part) End(err error, attributes ...Attribute) {
	if p == nil {
		return
	}
	end := p.track.tracer.now()
	if p.entered {
		p.work.leave(p.at, end, err != nil, attributes)
		return
	}
	if w := p.track.now(); w != nil {
		p.begun.end, p.begun.failed, p.begun.attributes = end, err != nil, attributes
		w.add(p.begun, false)
	}
}

// FileOf returns the attribute for a file, given its location.
func FileOf(location string) Attribute { return Attribute{Key: File, Text: path.Base(location)} }
