package icebergcat

import (
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// metadataFolder is the name of a table's folder for metadata.
const metadataFolder = "metadata"

// allowPrefixes parses the prefixes that the files of all tables may lie under. Without any, they are the warehouse, if that is a
// place, and prefixesOf adds the folder of each table.
func (c *Catalog) allowPrefixes() (err error) {
	o := c.options
	if len(o.AllowedPrefixes) > 0 {
		places := make([]string, len(o.AllowedPrefixes))
		for i, prefix := range o.AllowedPrefixes {
			if places[i], err = c.absolute(prefix); err != nil {
				return err
			}
		}
		if c.prefixes, err = o.Stores.Prefixes(places...); err != nil {
			return fault.InvalidField("allowed_prefixes", "%s", fault.As(err).Message).WithRemedy("%s", fault.As(err).Remedy)
		}
		return nil
	}
	if o.Warehouse == "" || c.warehouseIsName() || o.Type != typeDirectory && !o.Stores.Serves(o.Warehouse) {
		return nil
	}
	place, err := c.absolute(o.Warehouse)
	if err == nil {
		c.prefixes, err = o.Stores.Prefixes(place)
	}
	return err
}

// warehouseIsName reports whether the warehouse is a name that a server gives to a place. Only REST servers have such names: the
// warehouse of the other types is a place, which may be a relative path.
func (c *Catalog) warehouseIsName() bool {
	o := c.options
	return o.Type == typeREST && store.Scheme(o.Warehouse) == "" && !filepath.IsAbs(o.Warehouse)
}

// absolute returns a location whose path begins at the folder that relative paths start from.
func (c *Catalog) absolute(location string) (string, error) {
	if store.Scheme(location) != "" || filepath.IsAbs(location) || location == "" {
		return location, nil
	}
	return filepath.Abs(filepath.Join(c.options.BaseDir, location))
}

// prefixesOf returns the prefixes that the files of a table may lie under. Its own folder is the one whose metadata the catalog
// names. The location that metadata gives itself only counts if the catalog returned it: a writer of a metadata file could have it
// name any place.
func (c *Catalog) prefixesOf(m *loaded) store.Prefixes {
	if len(c.options.AllowedPrefixes) > 0 {
		return c.prefixes
	}
	out := c.prefixes
	own := []string{tableFolder(m.location)}
	if m.returned {
		own = append(own, m.Location())
	}
	for _, folder := range own {
		if more, err := c.options.Stores.Prefixes(folder); err == nil {
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
