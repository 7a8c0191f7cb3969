package loader

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// ColumnSizes returns the stored sizes of the columns that streams of a plan read, for the plan's
// explain text. It omits sizes that the catalog does not know, and returns nil if the catalog knows
// none.
func (l *Loader) ColumnSizes(ctx context.Context, p Planned) (*plan.ColumnSizes, error) {
	sizer, ok := l.options.Catalog.(catalog.Sizer)
	if !ok {
		return nil, nil //nolint:nilnil // nothing is known
	}
	return l.options.Plans.sizesOf(ctx, p.Plan, func(ctx context.Context) (*plan.ColumnSizes, error) { return columnSizes(ctx, sizer, p) })
}

// columnSizes finds the stored sizes of the columns that streams of a plan read.
func columnSizes(ctx context.Context, sizer catalog.Sizer, p Planned) (*plan.ColumnSizes, error) {
	sizes := &plan.ColumnSizes{Staging: make([]map[string]int64, len(p.Staging))}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		sizes.Training, err = sizer.ColumnBytes(ctx, p.Relation.Training, p.Planned.Training)
		return err
	})
	for i, s := range p.Relation.Staging {
		if p.Staging[i].Unread {
			continue
		}
		group.Go(func() (err error) {
			sizes.Staging[i], err = sizer.ColumnBytes(ctx, s.Pinned, p.Planned.Staging[i])
			return fault.Op(err, "staging table %s", s.Name)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return sizes, nil
}
