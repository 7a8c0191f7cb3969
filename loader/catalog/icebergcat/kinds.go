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

// The types of catalogs, as PyIceberg names them.
const (
	typeSQL       = "sql"
	typeREST      = "rest"
	typeDirectory = "directory"
)

// kinds are the types that are served, with what opens each.
func kinds() map[string]func(*Catalog, context.Context) error {
	return map[string]func(*Catalog, context.Context) error{
		typeSQL: (*Catalog).openSQL, typeREST: (*Catalog).openREST, typeDirectory: (*Catalog).openDirectory,
	}
}

// others are types that are not served and well known, with what helps.
func others() map[string]string {
	const rest = "put an Iceberg REST catalog before it, and use type: rest"
	return map[string]string{
		"glue": "use Glue's own Iceberg REST endpoint: type: rest, uri: https://glue.REGION.amazonaws.com/iceberg, " +
			"warehouse: ACCOUNT, rest.sigv4-enabled: true, rest.signing-name: glue, rest.signing-region: REGION",
		"hive": rest, "dynamodb": rest, "bigquery": rest, "jdbc": "use type: sql, which reads what Spark's JdbcCatalog writes",
		"hadoop":    "use type: directory with the warehouse's folder",
		"in-memory": "no other process sees such a catalog: use type: sql",
	}
}

// meantTypes are words for types that are served.
func meantTypes() map[string]string {
	return map[string]string{
		"sqlite": typeSQL, "sqlite3": typeSQL, "postgres": typeSQL, "postgresql": typeSQL,
		"http": typeREST, "polaris": typeREST, "nessie": typeREST, "lakekeeper": typeREST,
		"file": typeDirectory, "files": typeDirectory, "folder": typeDirectory, "dir": typeDirectory, "local": typeDirectory,
	}
}

// open opens what says where tables are.
func (c *Catalog) open(ctx context.Context) error {
	if open, ok := kinds()[c.options.Type]; ok {
		return open(c, ctx)
	}
	served := slices.Sorted(maps.Keys(kinds()))
	e := fault.InvalidField("type", "catalog type %q is not served by this version", c.options.Type)
	if remedy, ok := others()[c.options.Type]; ok {
		return e.WithRemedy("%s", remedy)
	}
	if e.Faults[0].Nearest = meantTypes()[c.options.Type]; e.Faults[0].Nearest == "" {
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
	if scheme := store.Scheme(o.Warehouse); scheme != "" && scheme != "file" && o.S3 == nil {
		return fault.InvalidField("warehouse", "storage %s: is not served by this version", scheme).
			WithRemedy(store.ServedStorage)
	}
	tables, err := sqlcat.Open(ctx, sqlcat.Options{Name: o.Name, URI: o.URI, BaseDir: o.BaseDir, Calls: o.Calls, Timeout: o.Timeout, Clock: o.Clock})
	if err != nil {
		return err
	}
	c.tables = tables
	return nil
}

// tablesPrefix begins the properties that name metadata files: tables.NAMESPACE.TABLE.
const tablesPrefix = "tables."

func (c *Catalog) openDirectory(context.Context) error {
	o := c.options
	named := map[string]string{}
	for property, path := range o.Properties {
		if table, ok := strings.CutPrefix(property, tablesPrefix); ok {
			named[table] = path
		}
	}
	tables, err := dircat.Open(dircat.Options{Warehouse: o.Warehouse, Tables: named, BaseDir: o.BaseDir, Calls: o.Calls, Open: c.access.open})
	if err != nil {
		return err
	}
	c.tables = tables
	return nil
}

func (c *Catalog) openREST(ctx context.Context) error {
	o := c.options
	tables, err := restcat.Open(ctx, restcat.Options{
		Name: o.Name, URI: o.URI, Warehouse: o.Warehouse, Properties: o.Properties, Timeout: o.Timeout, Clock: o.Clock, Sign: o.Sign,
	})
	if err != nil {
		return err
	}
	c.tables, c.access.properties = tables, tables.Properties()
	return nil
}
