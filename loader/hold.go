package loader

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// hold keeps the snapshots of all tables of a plan from expiring until the Handle is
// released. If one cannot be held, none are.
func (l *Loader) hold(ctx context.Context, p *plan.Plan) (*release.Handle, error) {
	if l.options.Hold == nil {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	handles := make([]*release.Handle, 1+len(p.Relation.Staging))
	// A failure does not cancel the others: a canceled commit may leave a file that no
	// catalog names.
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
	err := group.Wait()
	all := release.All(handles...)
	if err != nil {
		all.Release()
		return nil, err
	}
	return all, nil
}
