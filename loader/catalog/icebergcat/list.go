package icebergcat

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// List returns the names of all tables, sorted, with dots between their parts. It leaves out tables
// whose namespace or name has a dot in a part, because no name can refer to such a table.
func (c *Catalog) List(ctx context.Context) ([]string, error) {
	lister, ok := c.source.Locator.(locator.Lister)
	if !ok {
		return nil, fault.InvalidField("type", "a catalog of type %s cannot be listed", c.options.Type).
			WithRemedy("name the tables yourself")
	}
	tables, err := lister.List(ctx)
	if err != nil {
		return nil, fault.Op(err, "list catalog %s", c.name)
	}
	var names []string
	for _, parts := range tables {
		if len(parts) > 1 && !slices.ContainsFunc(parts, func(part string) bool { return part == "" || strings.ContainsRune(part, '.') }) {
			names = append(names, strings.Join(parts, "."))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// CurrentMetadata returns the locations of the current metadata files of all tables, or false if
// the catalog cannot list them. The result may have the locations of other metadata files as well.
func (c *Catalog) CurrentMetadata(ctx context.Context) (locations []string, known bool, err error) {
	lister, known := c.source.Locator.(locator.CurrentLister)
	if !known {
		return nil, false, nil
	}
	locations, err = lister.ListCurrent(ctx)
	return locations, true, fault.Op(err, "list the metadata files of catalog %s", c.name)
}
