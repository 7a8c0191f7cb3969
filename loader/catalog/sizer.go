package catalog

import "context"

// Sizer is a Catalog that may know the sizes of a file's columns, for explanations of queries. It is safe for
// concurrent use.
type Sizer interface {
	// ColumnBytes returns the stored size of columns together, by the location of each data file of a
	// pinned table. It leaves out files whose writer did not record the size of each of the columns. It
	// returns nil if it knows none. Errors are those of Files.
	ColumnBytes(ctx context.Context, t *Table, columns []int) (map[string]int64, error)
}

// ColumnBytes returns the stored size of columns in a catalog that knows it. See Sizer.
func (s *Set) ColumnBytes(ctx context.Context, t *Table, columns []int) (map[string]int64, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	sizer, ok := r.catalog.(Sizer)
	if !ok {
		return nil, nil //nolint:nilnil // nothing is known
	}
	inner := *t
	inner.Name = r.table
	sizes, err := sizer.ColumnBytes(ctx, &inner, columns)
	return sizes, s.explain(r, err)
}
