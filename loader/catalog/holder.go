package catalog

import (
	"context"

	"github.com/penstock/penstock/internal/release"
)

// Holder keeps pinned snapshots from expiring. It is safe for concurrent use.
type Holder interface {
	// Hold keeps the snapshot of a pinned table from expiring until it is released. It returns the
	// errors of Catalog, Unavailable if the catalog refuses the request, and Conflict if other
	// writers kept committing to the table.
	Hold(ctx context.Context, t *Table) (*release.Handle, error)
}

// Hold holds a table in its catalog if this catalog is a Holder. Otherwise it returns a nil Handle,
// and the table is read without a hold. See Holder.
func (s *Set) Hold(ctx context.Context, t *Table) (*release.Handle, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	holder, ok := r.catalog.(Holder)
	if !ok {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	inner := *t
	inner.Name = r.table
	held, err := holder.Hold(ctx, &inner)
	return held, s.explain(r, err)
}
