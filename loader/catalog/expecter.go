package catalog

import "context"

// Expecter is a Catalog that looks several tables up together, which takes less than one after the other.
type Expecter interface {
	// Expect returns a context in which the named tables, which are asked for next, are looked up together when the
	// first of them is. Each is looked up so once. What the catalog answers does not depend on it.
	Expect(ctx context.Context, names []string) context.Context
}

// Expect tells each catalog of the set which of its tables are asked for next. See Expecter.
func (s *Set) Expect(ctx context.Context, names []string) context.Context {
	of := map[Expecter][]string{}
	var catalogs []Expecter
	for _, name := range names {
		r, err := s.route(name)
		if err != nil {
			continue // it fails when it is asked for
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
