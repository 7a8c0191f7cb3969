package catalog

import "context"

// Sizer is a Catalog that may know how many bytes each column of a file takes. Explanations of
// queries show these sizes, and Lacking finds files without a column by them. It is safe for
// concurrent use.
type Sizer interface {
	// ColumnBytes returns, for each data file of a pinned table by its location, the number of
	// bytes that the given columns take together in the file. It leaves out each file for which the
	// writer did not record the size of every one of these columns. It returns nil if it knows no
	// sizes. It returns the errors of Files.
	ColumnBytes(ctx context.Context, t *Table, columns []int) (map[string]int64, error)
}

// Lacking returns the locations of those files of a pinned table that may lack a column, because
// their manifests do not have the sizes of all given columns. It returns none if the Sizer knows no
// sizes.
func Lacking(ctx context.Context, s Sizer, t *Table, columns []int, files []File) (map[string]bool, error) {
	sizes, err := s.ColumnBytes(ctx, t, columns)
	if err != nil || sizes == nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, f := range files {
		if _, has := sizes[f.Location]; !has {
			out[f.Location] = true
		}
	}
	return out, nil
}

// ColumnBytes returns the stored sizes of columns if the table's catalog is a Sizer, and nil
// otherwise. See Sizer.
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
