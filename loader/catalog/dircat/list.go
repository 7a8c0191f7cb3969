package dircat

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.Lister = (*Catalog)(nil)

// maxDepth bounds the depth of namespaces.
const maxDepth = 6

// List returns the tables in Options.Tables and the tables in local folders. A folder with metadata
// is a table; List does not look for other tables inside it. See locator.Lister.
func (c *Catalog) List(ctx context.Context) ([][]string, error) {
	var out [][]string
	for _, name := range slices.Sorted(maps.Keys(c.options.Tables)) {
		out = append(out, strings.Split(name, "."))
	}
	if c.options.Warehouse == "" {
		return out, nil
	}
	if !c.local && c.options.Stores.Of(c.warehouse) == nil {
		return nil, c.options.Stores.Refuse(c.warehouse)
	}
	if !c.local {
		return nil, fault.InvalidField("warehouse", "folders of %s are not listed", store.Scheme(c.warehouse)).
			WithRemedy("name the tables by path, tables: {namespace.name: …/x.metadata.json}, or use a catalog that lists them")
	}
	found, err := store.Call(ctx, c.options.Calls, "list", c.warehouse, func(context.Context) ([][]string, error) {
		if err := c.readable(); err != nil {
			return nil, err
		}
		return inFolder(c.warehouse, nil), nil
	})
	return append(out, found...), err
}

// readable returns an error if the warehouse is not a folder that can be listed.
func (c *Catalog) readable() error {
	if _, err := os.ReadDir(c.warehouse); err != nil {
		return fault.New(fault.Unavailable, "list %s: %w", c.warehouse, errors.Unwrap(err)).In("", c.warehouse).
			WithRemedy("check that warehouse is a folder, and that this user can read it")
	}
	return nil
}

// inFolder lists the tables in a folder that has the folders of namespaces and tables.
func inFolder(folder string, above []string) [][]string {
	var out [][]string
	for _, name := range subfolders(folder) {
		path := folder + "/" + name
		parts := append(slices.Clone(above), strings.TrimSuffix(name, dotDB))
		metadata, err := newest(name, path+"/metadata")
		switch {
		case len(above) > 0 && err == nil && metadata != "":
			out = append(out, append(slices.Clone(above), name))
		case len(parts) < maxDepth:
			out = append(out, inFolder(path, parts)...)
		}
	}
	return out
}
