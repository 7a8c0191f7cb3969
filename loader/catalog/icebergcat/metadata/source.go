package metadata

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/tablestore"
)

// Source finds, reads and caches the metadata of a catalog's tables. It is safe for concurrent use.
type Source struct {
	Catalog string // its name
	Locator locator.Locator
	Files   *tablestore.Files
	Stores  store.Kinds
	// Prefixes are the folders in which the files of all tables may be. Unless OnlyPrefixes is
	// true, the files of a table may also be in the table's own folder.
	Prefixes     store.Prefixes
	OnlyPrefixes bool
	StoredSizes  bool             // whether the sizes that storage reports are used, and not those in manifests
	Clock        func() time.Time // may be nil
	Most         int64            // maximum size of a metadata file in bytes, both stored and unpacked; 0 is unlimited
	Budget       *budget.Budget
	Manifests    *cache.Cache[[]byte]         // nil reads files each time
	Tables       *cache.Cache[*catalog.Table] // nil parses metadata each time
	// LookedUp is called after each request to the catalog for the metadata of tables, unless it or
	// Clock is nil.
	LookedUp func(took time.Duration, err error)
}

// lookup sends a request to the catalog, and calls LookedUp with its outcome.
func lookup[T any](s *Source, send func() (T, error)) (T, error) {
	if s.LookedUp == nil || s.Clock == nil {
		return send()
	}
	began := s.Clock()
	found, err := send()
	s.LookedUp(s.Clock().Sub(began), err)
	return found, err
}

// ask asks the catalog where the metadata of a table is.
func (s *Source) ask(ctx context.Context, of locator.Table) (locator.Located, error) {
	return lookup(s, func() (locator.Located, error) { return s.Locator.Locate(ctx, of) })
}

// Grants asks the catalog for new grants for a table. Locator must be a Granter.
func (s *Source) Grants(ctx context.Context, table string) ([]locator.Grant, error) {
	granter, ok := s.Locator.(locator.Granter)
	if !ok {
		return nil, fault.New(fault.Internal, "the catalog of table %s grants nothing", table).In(table, "")
	}
	parts, err := catalog.Parts(table)
	if err != nil {
		return nil, err
	}
	held := s.Hold(table)
	defer held.Release()
	file := s.Allow(metafile.Subject{What: "metadata", Table: table}, held)
	return granter.Grants(ctx, locator.Table{Name: table, Parts: parts, Most: s.Most, Charge: file.Charge})
}

// Hold returns an empty memory reservation for the metadata of a table. The caller releases it.
func (s *Source) Hold(table string) *budget.Reservation {
	held, _ := s.Budget.Reserve("the metadata of table "+table, 0) // zero bytes always fit
	return held
}

// Allow returns the allowance of a metadata file. It charges memory to held, and is valid until
// held is released.
func (s *Source) Allow(of metafile.Subject, held *budget.Reservation) metafile.Allowance {
	limit := s.Most
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return metafile.Allowance{Subject: of, Max: limit, Held: held}
}

// Now returns the current time.
func (s *Source) Now() time.Time {
	if s.Clock == nil {
		return time.Time{} // then the metadata's timestamp does not change
	}
	return s.Clock()
}

// Folder is the name of a table's folder for metadata.
const Folder = "metadata"

// prefixesOf returns the prefixes under which the files of a table may be. The table's own folder
// is the folder of the metadata file that the catalog names. The location in the metadata itself
// counts only if the catalog returned the metadata: somebody who can write a metadata file could
// put any location into it.
func (s *Source) prefixesOf(m *Loaded) store.Prefixes {
	if s.OnlyPrefixes {
		return s.Prefixes
	}
	out := s.Prefixes
	own := []string{tableFolder(m.File.Location)}
	if m.Returned {
		own = append(own, m.Location())
	}
	for _, folder := range own {
		if more, err := s.Stores.Prefixes(folder); err == nil {
			out = out.With(more)
		}
	}
	return out
}

// tableFolder returns the folder of a table, given the location of its metadata file.
func tableFolder(location string) string {
	folder := location[:max(0, strings.LastIndex(location, "/"))]
	return strings.TrimSuffix(folder, "/"+Folder)
}

// May returns an error for a file that is under none of the table's prefixes. It is called before
// storage receives any request for the file. It accepts a location on a kind of storage that is not
// supported; opening the file then returns an error.
func (m *Loaded) May(what, location string) error {
	if !m.stores.Serves(location) || m.Prefixes.Contain(location) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s %s of table %s is not under %s, from where this catalog may read", what, location, m.Name,
		strings.Join(m.Prefixes.List(), " or ")).In(m.Name, location).
		WithRemedy("if the file belongs to the table, list its folder and these in allowed_prefixes of the catalog's block")
}
