// Package dircat finds Iceberg tables without a catalog service: in the folders of a warehouse, in
// the layout of Hadoop's catalog and PyIceberg, or by configured paths of metadata files.
//
// Table ns.name is in the folder ns/name or ns.db/name. The file version-hint.text names a version
// of the table's metadata. If the next versions exist as well, the last consecutive one is current,
// because some writers do not update the hint. If there is no hint, the highest version is current.
// If several files have the current version, the table is ambiguous, and an error is returned. On
// remote storage, folders are not listed: a table there needs a hint or a configured path.
package dircat

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Options configure a Catalog.
type Options struct {
	Warehouse string            // the folder that has the folders of namespaces; "" if all tables are in Tables
	Tables    map[string]string // locations of metadata files, by table name
	BaseDir   string            // the folder that relative paths start from
	// Calls runs the calls that access local folders, so that they can be abandoned. If it is nil,
	// they run directly.
	Calls *store.Calls
	// Stores are the kinds of remote storage that are supported.
	Stores store.Kinds
	// Open opens a file on remote storage. It is used for version hints.
	Open func(ctx context.Context, location string, size int64) (store.Object, error)
}

// Catalog is the catalog of a folder.
type Catalog struct {
	options   Options
	warehouse string // without a trailing slash; "" if there is none
	local     bool   // the warehouse is a local path
}

var _ locator.Locator = (*Catalog)(nil)

// Open checks the options.
func Open(o Options) (*Catalog, error) {
	c := &Catalog{options: o, warehouse: strings.TrimRight(o.Warehouse, "/")}
	if o.Warehouse == "" && len(o.Tables) == 0 {
		return nil, fault.InvalidField("warehouse", "a catalog of type directory needs one, or tables").
			WithRemedy("write warehouse: /path/to/folder, or tables: {namespace.name: /path/to/x.metadata.json}")
	}
	for name := range o.Tables {
		if _, err := catalog.Parts(name); err != nil {
			return nil, fault.InvalidField("tables."+name, "%q is not a table name", name).WithRemedy("write namespace.table")
		}
	}
	if c.local = isLocal(c.warehouse); c.local {
		path, err := c.path(o.Warehouse)
		if err != nil {
			return nil, err
		}
		c.warehouse = path
	}
	return c, nil
}

// Close does nothing.
func (c *Catalog) Close() {}

func isLocal(location string) bool {
	scheme := store.Scheme(location)
	return scheme == "" || scheme == "file"
}

// path returns an absolute local path.
func (c *Catalog) path(location string) (string, error) {
	if store.Scheme(location) == "" && !filepath.IsAbs(location) {
		return filepath.Abs(filepath.Join(c.options.BaseDir, location))
	}
	path, err := store.Path(location)
	return filepath.Clean(path), err
}

// Locate finds the metadata file of a table. See locator.Locator.
func (c *Catalog) Locate(ctx context.Context, t locator.Table) (locator.Located, error) {
	if named, ok := c.options.Tables[t.Name]; ok {
		if !isLocal(named) {
			return locator.Located{Location: named}, nil
		}
		path, err := c.path(named)
		return locator.Located{Location: path}, err
	}
	plain := !slices.ContainsFunc(t.Parts, func(part string) bool { return strings.ContainsAny(part, "/\\\x00") })
	if c.options.Warehouse == "" || !plain {
		return locator.Located{}, catalog.UnknownTable(t.Name, slices.Sorted(maps.Keys(c.options.Tables)))
	}
	find := c.listed
	if !c.local {
		find = c.hinted
	}
	location, err := find(ctx, t)
	return locator.Located{Location: location}, err
}

// folders returns the folders that a table may be in.
func (c *Catalog) folders(t locator.Table) []string {
	last := len(t.Parts) - 1
	namespace := c.warehouse + "/" + strings.Join(t.Parts[:last], "/")
	return []string{namespace + "/" + t.Parts[last], namespace + dotDB + "/" + t.Parts[last]}
}

// dotDB is the suffix of namespace folders in Hive's layout, which other programs use too.
const dotDB = ".db"

// listed finds a table in a local folder.
func (c *Catalog) listed(ctx context.Context, t locator.Table) (string, error) {
	var found, folder string
	for _, f := range c.folders(t) {
		location, err := store.Call(ctx, c.options.Calls, "list", f+"/metadata", func(context.Context) (string, error) { return newest(t.Name, f+"/metadata") })
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case found != "":
			return "", fault.New(fault.Invalid, "table %s is in %s and in %s", t.Name, folder, f).In(t.Name, folder).
				WithRemedy("name its metadata file: tables: {%s: /path/to/x.metadata.json}", t.Name)
		}
		found, folder = location, f
	}
	if found == "" {
		names, err := store.Call(ctx, c.options.Calls, "list", c.warehouse, func(context.Context) ([]string, error) { return c.names(t), c.readable() })
		if err != nil {
			return "", err
		}
		return "", catalog.UnknownTable(t.Name, names)
	}
	return found, nil
}
