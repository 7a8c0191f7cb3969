package loader

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	handle "github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// hold holds the snapshots of all tables of a plan, side by side, before anything of them
// is read: all of them, or none.
func (l *Loader) hold(ctx context.Context, p *plan.Plan) (unhold func(), err error) {
	if l.options.Hold == nil {
		return func() {}, nil
	}
	handles := make([]*handle.Handle, 1+len(p.Relation.Staging))
	// One that fails does not end the others: a commit that is broken off may leave a file
	// that no catalog knows of.
	var group errgroup.Group
	one := func(i int, t *catalog.Table) error {
		held, err := l.options.Hold(ctx, t)
		handles[i] = held
		return err
	}
	group.Go(func() error { return one(0, p.Relation.Training) })
	for i, s := range p.Relation.Staging {
		group.Go(func() error { return fault.Op(one(1+i, s.Pinned), "staging table %s", s.Name) })
	}
	err = group.Wait()
	all := handle.All(handles...)
	if err != nil {
		all.Release()
		return nil, err
	}
	return all.Release, nil
}
