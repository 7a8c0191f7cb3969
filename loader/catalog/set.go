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

// Set is one Catalog made of several named ones. The first part of a table's
// name chooses the catalog if one of that name is in the set and a namespace
// follows it; every other name belongs to the default catalog. So
// "default.events" is table events of namespace default, also where a catalog
// is called default.
type Set struct {
	catalogs map[string]Catalog
	fallback string
}

// NewSet makes a set that sends names without a catalog to the one called
// fallback. With an empty fallback every name must say its catalog. A fallback
// that is not in the set is Invalid. The set does not own its catalogs.
func NewSet(catalogs map[string]Catalog, fallback string) (*Set, error) {
	if _, ok := catalogs[fallback]; fallback != "" && !ok {
		names := slices.Sorted(maps.Keys(catalogs))
		return nil, fault.Fields([]fault.Field{{
			Field: "catalogs", Message: "there is no catalog " + fallback + " to be the default",
			Nearest: fault.Nearest(fallback, names),
		}})
	}
	return &Set{catalogs: maps.Clone(catalogs), fallback: fallback}, nil
}

// Table pins the state that a ref names now. See Catalog.
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

// Open opens a file of a pinned table, as the catalog that the table is of does. See
// Opener.
func (s *Set) Open(ctx context.Context, t *Table, location string, size int64) (store.Object, error) {
	r, err := s.route(t.Name)
	if err != nil {
		return nil, err
	}
	files, ok := r.catalog.(Opener)
	if !ok {
		return nil, fault.New(fault.Internal, "the catalog of table %s opens no files", t.Name).In(t.Name, location)
	}
	inner := *t
	inner.Name = r.table
	return files.Open(ctx, &inner, location, size)
}

// route is where a name leads.
type route struct {
	catalog Catalog
	prefix  string // the catalog that the name says, or ""
	name    string // as it was given
	table   string // as the catalog knows it
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

// noCatalog is the failure of a name that leads nowhere.
func (s *Set) noCatalog(name string) error {
	names := slices.Sorted(maps.Keys(s.catalogs))
	first, _, _ := strings.Cut(name, ".")
	return unknown("table", first, names, "table %s names no catalog and there is no default one", name).In(name, "").
		WithRemedy("put one of these and a dot in front of it: %s", strings.Join(names, ", "))
}

// named gives a table back under the name that was asked for.
func (r route) named(t *Table) *Table {
	if t == nil || t.Name == r.name {
		return t
	}
	out := *t
	out.Name = r.name
	return &out
}

// explain puts the name as it was given into an error, and looks whether a
// table that is not there may be meant for another catalog.
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
		return err // but a table that is called like the rest is the catalog's that is meant
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
