package buildside

import (
	"context"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader/plan"
)

// Reference is a lane's reference to the file group of a range. It is used by one
// goroutine.
type Reference struct {
	group     *group
	at        plan.Range
	pin       *release.Handle // the pin of the group's build side; nil: the range is not open
	partition *pinned         // the partition of the range's bucket, if the group is partitioned on disk
}

// pinned is a Need of a build side, together with its pin.
type pinned struct {
	need   *cache.Need[buildSide]
	pin    *release.Handle
	unkept bool // see Input
}

func newPinned(n *cache.Need[buildSide], unkept bool) *pinned {
	return &pinned{need: n, pin: n.Pin(), unkept: unkept}
}

// release ends the pin and the need. It does nothing for a nil pinned.
func (p *pinned) release() {
	if p != nil {
		p.pin.Release()
		closeNeed(p.need, p.unkept)
	}
}

// prefetch is a goroutine that builds a group's build side.
type prefetch struct {
	owner     *Reference // the reference for which it builds; nil: that reference was released, and other references may take the result
	cancel    context.CancelFunc
	await     func() *release.Handle // marks the stream as waiting for the prefetch
	follow    func() (end func())    // counts the waits of the prefetch as waits of the stream
	done      chan struct{}          // closed when the goroutine ends
	partition *pinned                // the result for Reference.partition of the owner; it must not be used before done is closed
}

// Reference acquires a reference to the group of a range that is open. The caller
// releases it.
func (g *Groups) Reference(at plan.Range) *Reference {
	r := &Reference{group: g.group(at), at: at}
	r.group.references++
	r.Pin()
	return r
}

// ReferenceAhead acquires a reference to the group of an upcoming range. The group's build side may
// be evicted until the reference is pinned (Pin). The caller releases the reference.
func (g *Groups) ReferenceAhead(at plan.Range) *Reference {
	one := g.group(at)
	one.references++
	one.need.Pin().Release() // makes the build side idle, unless an open range uses it
	return &Reference{group: one, at: at}
}

// Pin pins the build side, since the range is opened. Further calls do nothing.
func (r *Reference) Pin() {
	if r.pin == nil {
		r.pin = r.group.need.Pin()
	}
}

// Release releases the reference. While an upcoming range needs the group, the group's build side
// is kept if memory is plentiful. The release of a group's last reference cancels the group's
// prefetch, if one is running, and waits until it has ended.
func (r *Reference) Release() {
	g := r.group
	switch p := g.prefetch; {
	case p == nil:
	case g.references == 1:
		p.cancel()
		<-p.done
		g.endPrefetch(p)
	case p.owner == r:
		p.owner = nil
	}
	r.partition.release()
	r.pin.Release()
	g.references--
	if g.references == 0 && g.coming[g.number] == 0 {
		g.close()
	}
}

// Prefetch starts to build the build side on a goroutine. It must not be called while a prefetch of
// the group is running, see ShouldPrefetch.
func (r *Reference) Prefetch(ctx context.Context) {
	invariant.Check(r.group.prefetch == nil, "%s is prefetched twice", r.group.input.Name)
	of := waits.Of(ctx)
	own := of.Shared() // until the stream waits for the result, it does something else
	ctx, await := budget.Prefetch(waits.With(ctx, own))
	ctx, cancel := context.WithCancel(ctx)
	p := &prefetch{owner: r, cancel: cancel, await: await, follow: func() func() { return of.Follow(own) }, done: make(chan struct{})}
	r.group.prefetch = p
	go func() {
		defer close(p.done)
		own := &Reference{group: r.group, at: r.at}                 // r may be released in the meantime
		if probeable, err := own.probeable(ctx, true); err == nil { // if the build fails, it is repeated when a row needs the build side
			probeable.Release()
		}
		p.partition = own.partition
	}()
}

// endPrefetch takes the result of a prefetch that has ended.
func (g *group) endPrefetch(p *prefetch) {
	p.cancel()
	g.prefetch = nil
	if p.owner != nil && p.owner.partition == nil {
		p.owner.partition = p.partition
	} else {
		p.partition.release()
	}
}

// PrefetchOpen is like Prefetch, for an open range of which no row was joined yet. It does nothing
// unless four conditions hold: this is the only reference to the group, no prefetch of the group is
// running, the group is small, and memory is plentiful.
func (r *Reference) PrefetchOpen(ctx context.Context) {
	if g := r.group; g.prefetch == nil && g.references == 1 && g.fits(g.number, 0) {
		r.Prefetch(ctx)
	}
}

// Bytes returns the stored size of the group's files.
func (r *Reference) Bytes() int64 { return r.group.bytes(r.group.number) }

// WaitPrefetch waits until the group's prefetch has ended, whichever range it runs for. It reports
// whether there was a prefetch.
func (r *Reference) WaitPrefetch() bool {
	p := r.group.prefetch
	if p == nil {
		return false
	}
	defer p.await().Release()
	defer p.follow()()
	<-p.done
	r.group.endPrefetch(p)
	return true
}

// Probeable returns the build side that the range is joined with. The caller releases the build
// side. If no stream has built it yet, Probeable builds it. It does so even after a failed
// prefetch, since the memory that the prefetch lacked may be free now. Probeable fails as Exhausted
// if neither memory nor local disk has room.
//
// Probeable first waits for the stream's own prefetch of the group. If it has to wait in the pool
// after that, it waits for a build of another stream.
func (r *Reference) Probeable(ctx context.Context) (joiner.Probeable, error) {
	part := trace.Of(ctx).Enter(trace.Side)
	r.WaitPrefetch()
	out, err := r.probeable(ctx, false)
	part.End(err, trace.Attribute{Key: trace.Table, Text: r.group.input.Name})
	return out, err
}

// probeable does the work of Probeable, either for a prefetch or for a row that needs the build
// side.
func (r *Reference) probeable(ctx context.Context, prefetch bool) (joiner.Probeable, error) {
	side, err := r.group.need.Get(ctx, r.group.recorded(func(ctx context.Context) (buildSide, error) { return r.group.build(ctx, prefetch) }))
	if err != nil {
		return nil, err
	}
	r.use(ctx, side, prefetch)
	if parts, ok := side.refCounted.(*spill.Partitions); ok {
		side, err = r.buildPartition(ctx, parts)
		parts.Release() // the pool has its own reference
		if err != nil {
			return nil, err
		}
		r.use(ctx, side, prefetch)
	}
	if s, ok := side.refCounted.(*spill.Sliced); ok {
		if !prefetch {
			r.group.costs.addStrategy("slices on disk")
		}
		defer s.Release()
		return s.ProbedBy(r.group.input.Training(r.at), r.group.costs.addSpilled), nil
	}
	whole := side.refCounted.(*joiner.BuildSide)
	if !prefetch && len(r.group.source.Files) > 0 {
		r.group.costs.addStrategy(whole.Strategy())
	}
	return whole, nil
}

// use records that a step uses a build side, which a prefetch does not.
func (r *Reference) use(ctx context.Context, side buildSide, prefetch bool) {
	if !prefetch {
		trace.Of(ctx).Use(side.unit)
	}
}
