package buildside

import (
	"context"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/plan"
)

// Reference is a lane's hold on the file group that a range needs. It is used
// by one goroutine.
type Reference struct {
	group *group
	at    plan.Range
	begun bool               // the range is open: the build side stays
	part  *cache.Need[built] // of the range's bucket, where the group was divided; nil if not
}

// ahead is what is being built ahead of a group.
type ahead struct {
	by     *Reference // for which it is built; nil: that one was released, and others may ask for it
	cancel context.CancelFunc
	await  func() *release.Handle // marks the stream as waiting for it
	done   chan struct{}          // closed when it is built, or could not be
	part   *cache.Need[built]     // then: as Reference.part, and nobody's before end
}

// Reference takes hold of the group that a range needs, which is open. The caller
// releases it.
func (g *Groups) Reference(at plan.Range) *Reference {
	r := &Reference{group: g.group(at), at: at}
	r.group.references++
	r.Begin()
	return r
}

// ReferenceAhead takes hold of the group that a range to come needs. What is built of it
// before Begin is given up where memory lacks. The caller releases it.
func (g *Groups) ReferenceAhead(at plan.Range) *Reference {
	one := g.group(at)
	one.references++
	if one.begun == 0 {
		one.need.Use()
		one.need.Idle()
	}
	return &Reference{group: one, at: at}
}

// Begin says that the range is open now. It may be said again.
func (r *Reference) Begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.group.begun++
	if r.group.begun == 1 {
		r.group.need.Use()
	}
}

// Release ends the hold. A group without any stays known while a range to come
// needs it, so that its build side may stay where memory is plentiful.
func (r *Reference) Release() {
	g := r.group
	switch a := g.ahead; {
	case a == nil:
	case g.references == 1:
		a.cancel()
		<-a.done
		g.end(a)
	case a.by == r:
		a.by = nil
	}
	if r.part != nil {
		r.part.Idle()
		r.part.Done()
	}
	if r.begun {
		g.begun--
		if g.begun == 0 {
			g.need.Idle()
		}
	}
	g.references--
	if g.references == 0 && g.coming[g.of] == 0 {
		g.done()
	}
}

// BuildAhead begins to build what the range is joined with, of a group of which
// nothing is being built ahead yet: see Ahead.
func (r *Reference) BuildAhead(ctx context.Context) {
	invariant.Check(r.group.ahead == nil, "%s is built ahead twice", r.group.input.Name)
	ctx, await := budget.Prefetch(ctx)
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{by: r, cancel: cancel, await: await, done: make(chan struct{})}
	r.group.ahead = a
	go func() {
		defer close(a.done)
		own := &Reference{group: r.group, at: r.at}            // r may be released meanwhile
		if made, err := own.probeable(ctx, true); err == nil { // what fails here is tried again when a row asks
			made.Release()
		}
		a.part = own.part
	}()
}

// end takes what was built ahead, which is done.
func (g *group) end(a *ahead) {
	a.cancel()
	g.ahead = nil
	switch {
	case a.part == nil:
	case a.by != nil && a.by.part == nil:
		a.by.part = a.part
	default:
		a.part.Idle()
		a.part.Done()
	}
}

// BuildEarly is BuildAhead for a range that is open, before a row asks: if nothing of
// the group is being built ahead, no other lane uses it, it is small, and memory is
// plentiful.
func (r *Reference) BuildEarly(ctx context.Context) {
	if g := r.group; g.ahead == nil && g.references == 1 && g.fits(g.of, 0) {
		r.BuildAhead(ctx)
	}
}

// Bytes is what the files of the group take, as stored.
func (r *Reference) Bytes() int64 { return r.group.bytes(r.group.of) }

// Settle waits for what is being built ahead of the group, for whichever range,
// and says whether something was.
func (r *Reference) Settle() bool {
	a := r.group.ahead
	if a == nil {
		return false
	}
	defer a.await().Release()
	<-a.done
	r.group.end(a)
	return true
}

// Probeable returns what the range is joined with, with a reference of the
// caller's. What could not be built ahead is tried again: the memory that it
// lacked may be free now. It is Exhausted where neither memory nor local disk
// has room.
//
// What the stream itself builds ahead of the group is waited for first, so that
// whoever waits in the pool waits for another stream.
func (r *Reference) Probeable(ctx context.Context) (joiner.Probeable, error) {
	r.Settle()
	return r.probeable(ctx, false)
}

// probeable is Probeable of what is built ahead, or of what a row asks for.
func (r *Reference) probeable(ctx context.Context, ahead bool) (joiner.Probeable, error) {
	made, err := r.group.need.Get(ctx, func(ctx context.Context) (built, error) { return r.group.build(ctx, ahead) })
	if err != nil {
		return nil, err
	}
	if parts, ok := made.counted.(*spill.Parts); ok {
		made, err = r.buildPart(ctx, parts)
		parts.Release() // the pool keeps them
		if err != nil {
			return nil, err
		}
	}
	if s, ok := made.counted.(*spill.Sliced); ok {
		if !ahead {
			r.group.costs.addStrategy("slices on disk")
		}
		defer s.Release()
		return s.ProbedBy(r.group.input.Training(r.at), r.group.costs.addSpilled), nil
	}
	whole := made.counted.(*joiner.BuildSide)
	if !ahead && len(r.group.source.Files) > 0 {
		r.group.costs.addStrategy(whole.Strategy())
	}
	return whole, nil
}
