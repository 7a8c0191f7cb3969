package catalog

import "context"

// Holder keeps pinned snapshots from expiring. It is safe for concurrent use.
type Holder interface {
	// Hold sees to it that the snapshot of a pinned table does not expire before it is
	// released. Errors are those of Catalog; what is refused is Unavailable, and what
	// others commit the whole time Conflict.
	Hold(ctx context.Context, t *Table) (release func(), err error)
}

// Hold holds a table as the catalog that it is of does. Tables of catalogs that hold none
// are read as they are. See Holder.
func (s *Set) Hold(ctx context.Context, t *Table) (release func(), err error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	holder, ok := r.catalog.(Holder)
	if !ok {
		return func() {}, nil
	}
	inner := *t
	inner.Name = r.table
	release, err = holder.Hold(ctx, &inner)
	return release, s.explain(r, err)
}
