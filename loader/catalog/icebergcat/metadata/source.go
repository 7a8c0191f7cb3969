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

// Source finds the metadata of a catalog's tables, reads it and remembers it. It is safe for concurrent use.
type Source struct {
	Catalog string // its name
	Locator locator.Locator
	Files   *tablestore.Files
	Stores  store.Kinds
	// prefixes are the folders that files of all tables may lie in. Unless there are onlyPrefixes, the files of a table may also
	// lie in its own folder.
	Prefixes     store.Prefixes
	OnlyPrefixes bool
	StoredSizes  bool             // sizes in manifests are not relied on
	Clock        func() time.Time // may be nil
	Most         int64            // bytes of a metadata file, stored and unpacked; 0 is unlimited
	Budget       *budget.Budget
	Manifests    *cache.Cache[[]byte]         // nil reads files each time
	Tables       *cache.Cache[*catalog.Table] // nil parses metadata each time
}

// Grants asks the catalog what it grants for a table. The locator is a Granter.
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

// Hold returns an empty reservation for the metadata of a table. The caller releases it.
func (s *Source) Hold(table string) *budget.Reservation {
	held, _ := s.Budget.Reserve("the metadata of table "+table, 0) // zero bytes always fit
	return held
}

// Allow returns the allowance of a file, which lasts until held is released.
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

// prefixesOf returns the prefixes that the files of a table may lie under. Its own folder is the one whose metadata the catalog
// names. The location that metadata gives itself only counts if the catalog returned it: a writer of a metadata file could have it
// name any place.
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

// tableFolder returns the folder of a table whose metadata file is at a location.
func tableFolder(location string) string {
	folder := location[:max(0, strings.LastIndex(location, "/"))]
	return strings.TrimSuffix(folder, "/"+Folder)
}

// May returns an error for a file that lies under none of the table's prefixes. It is called before anything of the file is
// requested. Storage of a kind that is not served is refused when the file is opened.
func (m *Loaded) May(what, location string) error {
	if !m.stores.Serves(location) || m.Prefixes.Contain(location) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s %s of table %s does not lie under %s, from where this catalog may read", what, location, m.Name,
		strings.Join(m.Prefixes.List(), " or ")).In(m.Name, location).
		WithRemedy("if the file belongs to the table, list its folder and these in allowed_prefixes of the catalog's block")
}
