package icebergcat

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/dircat"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
)

// The types of catalogs, with PyIceberg's names.
const (
	typeSQL       = "sql"
	typeREST      = "rest"
	typeDirectory = "directory"
)

// kinds returns the types that are served, each with the function that opens it.
func kinds() map[string]func(*Catalog, context.Context) error {
	return map[string]func(*Catalog, context.Context) error{
		typeSQL: (*Catalog).openSQL, typeREST: (*Catalog).openREST, typeDirectory: (*Catalog).openDirectory,
	}
}

// unsupported returns well-known types that are not served, with remedies.
func unsupported() map[string]string {
	const rest = "put an Iceberg REST catalog before it, and use type: rest"
	return map[string]string{
		"glue": "use Glue's own Iceberg REST endpoint: type: rest, uri: https://glue.REGION.amazonaws.com/iceberg, " +
			"warehouse: ACCOUNT, rest.sigv4-enabled: true, rest.signing-name: glue, rest.signing-region: REGION",
		"hive": rest, "dynamodb": rest, "bigquery": rest, "jdbc": "use type: sql, which reads what Spark's JdbcCatalog writes",
		"hadoop":    "use type: directory with the warehouse's folder",
		"in-memory": "no other process can see such a catalog: use type: sql",
	}
}

// aliases returns other words for types that are served.
func aliases() map[string]string {
	return map[string]string{
		"sqlite": typeSQL, "sqlite3": typeSQL, "postgres": typeSQL, "postgresql": typeSQL,
		"http": typeREST, "polaris": typeREST, "nessie": typeREST, "lakekeeper": typeREST,
		"file": typeDirectory, "files": typeDirectory, "folder": typeDirectory, "dir": typeDirectory, "local": typeDirectory,
	}
}

// open opens the Locator and the files of the catalog.
func (c *Catalog) open(ctx context.Context) error {
	if open, ok := kinds()[c.options.Type]; ok {
		return open(c, ctx)
	}
	served := slices.Sorted(maps.Keys(kinds()))
	e := fault.InvalidField("type", "catalog type %q is not served by this version", c.options.Type)
	if remedy, ok := unsupported()[c.options.Type]; ok {
		return e.WithRemedy("%s", remedy)
	}
	if e.Faults[0].Nearest = aliases()[c.options.Type]; e.Faults[0].Nearest == "" {
		e.Faults[0].Nearest = fault.Nearest(c.options.Type, served)
	}
	remedy := "use one of: " + strings.Join(served, ", ")
	if near := e.Faults[0].Nearest; near != "" {
		remedy = "did you mean " + near + "? " + remedy
	}
	return e.WithRemedy("%s", remedy)
}

func (c *Catalog) openSQL(ctx context.Context) error {
	o := c.options
	if scheme := store.Scheme(o.Warehouse); scheme != "" && scheme != "file" && len(o.Stores) == 0 {
		return fault.InvalidField("warehouse", "storage %s: is not served by this version", scheme).
			WithRemedy("%s", o.Stores.Served())
	}
	tables, err := sqlcat.Open(ctx, sqlcat.Options{Name: o.Name, URI: o.URI, BaseDir: o.BaseDir, Calls: o.Calls, Timeout: o.Timeout, Clock: o.Clock})
	if err != nil {
		return err
	}
	c.tables = tables
	return nil
}

// tablesPrefix begins properties with the paths of metadata files: tables.NAMESPACE.TABLE.
const tablesPrefix = "tables."

func (c *Catalog) openDirectory(context.Context) error {
	o := c.options
	named := map[string]string{}
	for property, path := range o.Properties {
		if table, ok := strings.CutPrefix(property, tablesPrefix); ok {
			named[table] = path
		}
	}
	tables, err := dircat.Open(dircat.Options{Warehouse: o.Warehouse, Tables: named, BaseDir: o.BaseDir, Calls: o.Calls, Stores: o.Stores, Open: c.files.Open})
	if err != nil {
		return err
	}
	c.tables = tables
	return nil
}

func (c *Catalog) openREST(ctx context.Context) error {
	o := c.options
	tables, err := restcat.Open(ctx, restcat.Options{
		Name: o.Name, URI: o.URI, Warehouse: o.Warehouse, Properties: o.Properties, Stores: o.Stores, Timeout: o.Timeout, Clock: o.Clock, Sign: o.Sign,
	})
	if err != nil {
		return err
	}
	c.tables, c.files = tables, c.newFiles(tables.Properties(), tables)
	return nil
}
