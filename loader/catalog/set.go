package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/dataset"
)

// Set is a Catalog that consists of several named catalogs. The first part of a table's name
// chooses the catalog if the set has a catalog of this name and at least two more parts follow, a
// namespace and a table. Every other name belongs to the default catalog. So "default.events" is
// table events of namespace default, even if a catalog is called default.
type Set struct {
	catalogs map[string]Catalog
	fallback string
}

// NewSet returns a set whose default catalog is the one called fallback. With an empty fallback,
// every name must start with a catalog. A fallback that is not in the set is Invalid. The caller
// remains responsible for closing the catalogs.
func NewSet(catalogs map[string]Catalog, fallback string) (*Set, error) {
	if _, ok := catalogs[fallback]; fallback != "" && !ok {
		names := slices.Sorted(maps.Keys(catalogs))
		return nil, fault.Fields([]fault.Field{{
			Field: "catalogs", Message: "the default catalog " + fallback + " does not exist",
			Nearest: fault.Nearest(fallback, names),
		}})
	}
	return &Set{catalogs: maps.Clone(catalogs), fallback: fallback}, nil
}

// Table pins the current state of a ref. See Catalog.
func (s *Set) Table(ctx context.Context, name string, ref dataset.Ref) (*Table, error) {
	r, err := s.route(name)
	if err != nil {
		return nil, err
	}
	t, err := r.catalog.Table(ctx, r.table, ref)
	return r.named(t), s.explain(r, err)
}

// At opens a state that was pinned before. See Catalog.
func (s *Set) At(ctx context.Context, name string, pin dataset.TablePin) (*Table, error) {
	r, err := s.route(name)
	if err != nil {
		return nil, err
	}
	t, err := r.catalog.At(ctx, r.table, pin)
	return r.named(t), s.explain(r, err)
}

// Files lists the data files of a pinned table. See Catalog.
func (s *Set) Files(ctx context.Context, t *Table, columns []int, bounds []int) ([]File, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	inner := *t
	inner.Name = r.table
	files, err := r.catalog.Files(ctx, &inner, columns, bounds)
	return files, s.explain(r, err)
}

// Appended lists the data files that were appended after a snapshot. See Catalog.
func (s *Set) Appended(ctx context.Context, t *Table, since int64, columns []int, bounds []int) ([]File, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	inner := *t
	inner.Name = r.table
	files, err := r.catalog.Appended(ctx, &inner, since, columns, bounds)
	return files, s.explain(r, err)
}

// Open opens a file of a pinned table in its catalog. See Opener.
func (s *Set) Open(ctx context.Context, t *Table, location string, size int64) (store.Object, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	files, ok := r.catalog.(Opener)
	if !ok {
		return nil, fault.New(fault.Internal, "the catalog of table %s cannot open files", t.Name).In(t.Name, location)
	}
	inner := *t
	inner.Name = r.table
	return files.Open(ctx, &inner, location, size)
}

// Route returns the name of the catalog that has a table, and the table's name in it.
func (s *Set) Route(name string) (of, table string, err error) {
	r, err := s.route(name)
	if err != nil {
		return "", "", err
	}
	if r.prefix == "" {
		return s.fallback, r.table, nil
	}
	return r.prefix, r.table, nil
}

// Same reports whether two names refer to the same table.
func (s *Set) Same(a, b string) bool {
	of, name, err := s.Route(a)
	ofB, nameB, failed := s.Route(b)
	return err == nil && failed == nil && of == ofB && name == nameB
}

// route is the catalog of a table's name, and the table's name in this catalog.
type route struct {
	catalog Catalog
	prefix  string // the catalog's name at the beginning of the table's name, or ""
	name    string // the table's name as the caller wrote it
	table   string // the table's name in the catalog
}

func (s *Set) route(name string) (route, error) {
	if first, rest, ok := strings.Cut(name, "."); ok && strings.Contains(rest, ".") {
		if c, found := s.catalogs[first]; found {
			return route{catalog: c, prefix: first, name: name, table: rest}, nil
		}
	}
	if s.fallback == "" {
		return route{}, s.noCatalog(name)
	}
	return route{catalog: s.catalogs[s.fallback], name: name, table: name}, nil
}

// noCatalog returns the error for a name without a catalog if the set has no default catalog.
func (s *Set) noCatalog(name string) error {
	names := slices.Sorted(maps.Keys(s.catalogs))
	first, _, _ := strings.Cut(name, ".")
	return unknown("table", first, names, "table %s does not name a catalog, and there is no default catalog", name).In(name, "").
		WithRemedy("put one of these and a dot in front of it: %s", strings.Join(names, ", "))
}

// named returns the table with the name that the caller wrote.
func (r route) named(t *Table) *Table {
	if t == nil || t.Name == r.name {
		return t
	}
	out := *t
	out.Name = r.name
	return &out
}

// explain puts the name that the caller wrote into an error. If the table does not exist, and the
// first part of its name is similar to a catalog's name, the error suggests this catalog.
func (s *Set) explain(r route, err error) error {
	if err == nil {
		return nil
	}
	if r.prefix != "" {
		return inCatalog(r, err)
	}
	var e *fault.Error
	first, rest, _ := strings.Cut(r.name, ".")
	if !errors.As(err, &e) || e.Kind != fault.NotFound || !strings.Contains(rest, ".") {
		return err
	}
	names := slices.Sorted(maps.Keys(s.catalogs))
	near := fault.Nearest(first, names)
	if near == "" || len(e.Faults) > 0 && e.Faults[0].Nearest != "" && e.Faults[0].Nearest != rest {
		return err // a similar table of this catalog is more likely
	}
	out := *e
	out.Faults = slices.Clone(e.Faults)
	if len(out.Faults) > 0 {
		out.Faults[0].Nearest, out.Message = near+"."+rest, e.Faults[0].Message
	}
	out.Remedy = "no catalog is called " + first + "; did you mean catalog " + near + ", as in " + near + "." + rest + "?"
	out.Err = err
	return &out
}

func inCatalog(r route, err error) error {
	wrapped := fault.Op(err, "catalog %s", r.prefix)
	var e *fault.Error
	if !errors.As(wrapped, &e) || e.Table != r.table {
		return wrapped
	}
	out := *e
	out.Table = r.name
	return &out
}
