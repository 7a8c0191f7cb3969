package icebergcat

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
	catalog string // its name
	locator locator.Locator
	files   *tablestore.Files
	stores  store.Kinds
	// prefixes are the folders that files of all tables may lie in. Unless there are onlyPrefixes, the files of a table may also
	// lie in its own folder.
	prefixes     store.Prefixes
	onlyPrefixes bool
	storedSizes  bool             // sizes in manifests are not relied on
	clock        func() time.Time // may be nil
	most         int64            // bytes of a metadata file, stored and unpacked; 0 is unlimited
	budget       *budget.Budget
	manifests    *cache.Cache[[]byte]         // nil reads files each time
	tables       *cache.Cache[*catalog.Table] // nil parses metadata each time
}

// grants asks the catalog what it grants for a table. The locator is a Granter.
func (s *Source) grants(ctx context.Context, table string) ([]locator.Grant, error) {
	granter, ok := s.locator.(locator.Granter)
	if !ok {
		return nil, fault.New(fault.Internal, "the catalog of table %s grants nothing", table).In(table, "")
	}
	parts, err := catalog.Parts(table)
	if err != nil {
		return nil, err
	}
	held := s.hold(table)
	defer held.Release()
	file := s.allow(metafile.Subject{What: "metadata", Table: table}, held)
	return granter.Grants(ctx, locator.Table{Name: table, Parts: parts, Most: s.most, Charge: file.Charge})
}

// hold returns an empty reservation for the metadata of a table. The caller releases it.
func (s *Source) hold(table string) *budget.Reservation {
	held, _ := s.budget.Reserve("the metadata of table "+table, 0) // zero bytes always fit
	return held
}

// allow returns the allowance of a file, which lasts until held is released.
func (s *Source) allow(of metafile.Subject, held *budget.Reservation) metafile.Allowance {
	limit := s.most
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return metafile.Allowance{Subject: of, Max: limit, Held: held}
}

// now returns the current time.
func (s *Source) now() time.Time {
	if s.clock == nil {
		return time.Time{} // then the metadata's timestamp does not change
	}
	return s.clock()
}

// metadataFolder is the name of a table's folder for metadata.
const metadataFolder = "metadata"

// prefixesOf returns the prefixes that the files of a table may lie under. Its own folder is the one whose metadata the catalog
// names. The location that metadata gives itself only counts if the catalog returned it: a writer of a metadata file could have it
// name any place.
func (s *Source) prefixesOf(m *loaded) store.Prefixes {
	if s.onlyPrefixes {
		return s.prefixes
	}
	out := s.prefixes
	own := []string{tableFolder(m.file.Location)}
	if m.returned {
		own = append(own, m.Location())
	}
	for _, folder := range own {
		if more, err := s.stores.Prefixes(folder); err == nil {
			out = out.With(more)
		}
	}
	return out
}

// tableFolder returns the folder of a table whose metadata file is at a location.
func tableFolder(location string) string {
	folder := location[:max(0, strings.LastIndex(location, "/"))]
	return strings.TrimSuffix(folder, "/"+metadataFolder)
}

// may returns an error for a file that lies under none of the table's prefixes. It is called before anything of the file is
// requested. Storage of a kind that is not served is refused when the file is opened.
func (m *loaded) may(what, location string) error {
	if !m.stores.Serves(location) || m.prefixes.Contain(location) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s %s of table %s does not lie under %s, from where this catalog may read", what, location, m.name,
		strings.Join(m.prefixes.List(), " or ")).In(m.name, location).
		WithRemedy("if the file belongs to the table, list its folder and these in allowed_prefixes of the catalog's block")
}
