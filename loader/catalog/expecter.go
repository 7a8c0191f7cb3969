package catalog

import "context"

// Expecter is a Catalog that can look up several tables in one call. This is faster than one call
// for each table.
type Expecter interface {
	// Expect returns a context in which the first lookup of one of the named tables looks up all of
	// them. For each table, one later lookup uses this result; further lookups ask the catalog
	// again. The results are the same as without Expect.
	Expect(ctx context.Context, names []string) context.Context
}

// Expect passes to each catalog of the set the names of its tables that will be looked up next. See Expecter.
func (s *Set) Expect(ctx context.Context, names []string) context.Context {
	of := map[Expecter][]string{}
	var catalogs []Expecter
	for _, name := range names {
		r, err := s.route(name)
		if err != nil {
			continue // the later lookup of this name returns the error
		}
		one, ok := r.catalog.(Expecter)
		if !ok {
			continue
		}
		if of[one] == nil {
			catalogs = append(catalogs, one)
		}
		of[one] = append(of[one], r.table)
	}
	for _, one := range catalogs {
		ctx = one.Expect(ctx, of[one]) //nolint:fatcontext // once for each catalog
	}
	return ctx
}
