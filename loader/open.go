package loader

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// StreamOptions describes how a plan is read: the query's Reading, with its defaults
// set and its shard chosen, and what the server adds.
type StreamOptions struct {
	dataset.Reading
	Counts *dataset.Counts // of the plan, as returned by Count; nil: not counted
	Part   plan.Part       // of the plan's splits; zero: all of them
	Peer   string          // the host of the client, whose streams share a part of the memory
}

// Open returns the stream of one shard of a plan. It holds the snapshots that the
// stream reads until the stream is released, and fails if one cannot be held. Nothing
// is read before the first Next. The caller releases the stream; canceling ctx ends it.
func (l *Loader) Open(ctx context.Context, p *plan.Plan, r StreamOptions) (Stream, error) {
	outputs, err := p.Relation.Choose(r.Selection())
	if err != nil {
		return nil, err
	}
	if len(outputs) == 0 {
		return nil, fault.InvalidField("columns", "no column is asked for")
	}
	begun, err := begin(p, r, batchRows(p, r, outputs))
	if err != nil {
		return nil, err
	}
	if r.Tail.Drops() && begun.counts == nil {
		return nil, fault.New(fault.Internal, "shards are to end at the same step, and nobody has counted where that is")
	}
	form, err := newForm(p.Relation, r, outputs)
	if err != nil {
		return nil, err
	}
	paid, err := l.pay(ctx, p, r.Peer)
	if err != nil {
		return nil, err
	}
	held, err := l.hold(ctx, p)
	if err != nil {
		paid.Release()
		return nil, err
	}
	s := &stream{
		ctx: ctx, loader: l, plan: p, reading: r, outputs: outputs, form: form, start: begun,
		held: release.All(paid, held, l.keep(p, r.Part)),
	}
	for _, one := range begun.lanes {
		s.at, s.passed = append(s.at, one.Start), append(s.passed, 0)
	}
	s.refs.Store(1)
	if err := s.open(ctx); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// keep keeps the contents of delete files of a part of the plan loaded from range to
// range, if there is room.
func (l *Loader) keep(p *plan.Plan, part plan.Part) *release.Handle {
	if l.options.Keep == nil {
		return nil
	}
	var training []catalog.File
	for _, split := range p.SplitsOf(part) {
		for _, f := range split.Files {
			training = append(training, f.File)
		}
	}
	kept := []*release.Handle{l.keepFiles(p.Relation.Training, training)}
	for i, s := range p.Staging {
		for _, g := range s.Groups {
			kept = append(kept, l.keepFiles(p.Relation.Staging[i].Pinned, g.Files))
		}
	}
	return release.All(kept...)
}

func (l *Loader) keepFiles(t *catalog.Table, files []catalog.File) *release.Handle {
	var deleted []catalog.File
	for _, f := range files {
		if !f.Deletes.None() {
			deleted = append(deleted, f)
		}
	}
	if deleted == nil {
		return nil
	}
	return l.options.Keep(t, deleted)
}

// freePlan is the plan size that is not charged to the budget; few plans are larger.
const freePlan = 256 << 10

// pay reserves the memory of a plan, once for all of its streams, until the Handle is
// released.
func (l *Loader) pay(ctx context.Context, p *plan.Plan, peer string) (*release.Handle, error) {
	bytes := planBytes(p)
	if bytes <= freePlan {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	ctx, entered := l.options.Budget.Enter(ctx, peer) // the stream may wait for memory
	defer entered.Release()
	return l.paid.Hold(ctx, p, bytes)
}
