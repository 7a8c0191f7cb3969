package icebergcat

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/dircat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
)

// The catalog types, as PyIceberg names them.
const (
	typeSQL       = "sql"
	typeREST      = "rest"
	typeDirectory = "directory"
)

// kinds returns the supported catalog types, each with the function that opens a catalog of the type.
func kinds() map[string]func(Options, context.Context, *metadata.Source) error {
	return map[string]func(Options, context.Context, *metadata.Source) error{
		typeSQL: Options.openSQL, typeREST: Options.openREST, typeDirectory: Options.openDirectory,
	}
}

// unsupported returns well-known catalog types that are not supported, each with a remedy.
func unsupported() map[string]string {
	const rest = "put an Iceberg REST catalog in front of it, and use type: rest"
	return map[string]string{
		"glue": "use Glue's own Iceberg REST endpoint: type: rest, uri: https://glue.REGION.amazonaws.com/iceberg, " +
			"warehouse: ACCOUNT, rest.sigv4-enabled: true, rest.signing-name: glue, rest.signing-region: REGION",
		"hive": rest, "dynamodb": rest, "bigquery": rest, "jdbc": "use type: sql, which reads what Spark's JdbcCatalog writes",
		"hadoop":    "use type: directory with the warehouse's folder",
		"in-memory": "no other process can see such a catalog: use type: sql",
	}
}

// aliases returns other names of supported catalog types.
func aliases() map[string]string {
	return map[string]string{
		"sqlite": typeSQL, "sqlite3": typeSQL, "postgres": typeSQL, "postgresql": typeSQL,
		"http": typeREST, "polaris": typeREST, "nessie": typeREST, "lakekeeper": typeREST,
		"file": typeDirectory, "files": typeDirectory, "folder": typeDirectory, "dir": typeDirectory, "local": typeDirectory,
	}
}

// open sets the Locator and the Files of a source.
func (o Options) open(ctx context.Context, s *metadata.Source) error {
	if open, ok := kinds()[o.Type]; ok {
		s.Files = o.files(o.Properties, nil)
		return open(o, ctx, s)
	}
	served := slices.Sorted(maps.Keys(kinds()))
	e := fault.InvalidField("type", "catalog type %q is not supported by this version", o.Type)
	if remedy, ok := unsupported()[o.Type]; ok {
		return e.WithRemedy("%s", remedy)
	}
	if e.Faults[0].Nearest = aliases()[o.Type]; e.Faults[0].Nearest == "" {
		e.Faults[0].Nearest = fault.Nearest(o.Type, served)
	}
	remedy := "use one of: " + strings.Join(served, ", ")
	if near := e.Faults[0].Nearest; near != "" {
		remedy = "did you mean " + near + "? " + remedy
	}
	return e.WithRemedy("%s", remedy)
}

func (o Options) openSQL(ctx context.Context, s *metadata.Source) error {
	if scheme := store.Scheme(o.Warehouse); scheme != "" && scheme != "file" && len(o.Stores) == 0 {
		return fault.InvalidField("warehouse", "storage scheme %q is not supported by this version", scheme).
			WithRemedy("%s", o.Stores.Served())
	}
	tables, err := sqlcat.Open(ctx, sqlcat.Options{Name: o.Name, URI: o.URI, BaseDir: o.BaseDir, Calls: o.Calls, Timeout: o.Timeout, Clock: o.Clock})
	if err != nil {
		return err
	}
	s.Locator = tables
	return nil
}

// checkWrites returns an error if the options allow writes and the catalog does not support them.
func (o Options) checkWrites(l locator.Locator) error {
	switch l.(type) {
	case locator.Swapper, locator.Updater:
		return nil
	}
	if len(o.WriteNamespaces) == 0 {
		return nil
	}
	return fault.InvalidField("writes", "a catalog of type %s cannot be written to: two writers could replace each other's commits", o.Type).
		WithRemedy("leave writes out, or keep the tables in a catalog of type sql or rest")
}

// tablesPrefix is the prefix of properties that give the path of a table's metadata file:
// tables.NAMESPACE.TABLE.
const tablesPrefix = "tables."

func (o Options) openDirectory(_ context.Context, s *metadata.Source) error {
	named := map[string]string{}
	for property, path := range o.Properties {
		if table, ok := strings.CutPrefix(property, tablesPrefix); ok {
			named[table] = path
		}
	}
	tables, err := dircat.Open(dircat.Options{Warehouse: o.Warehouse, Tables: named, BaseDir: o.BaseDir, Calls: o.Calls, Stores: o.Stores, Open: s.Files.Open})
	if err != nil {
		return err
	}
	s.Locator = tables
	return nil
}

func (o Options) openREST(ctx context.Context, s *metadata.Source) error {
	tables, err := restcat.Open(ctx, restcat.Options{
		Name: o.Name, URI: o.URI, Warehouse: o.Warehouse, Properties: o.Properties, Stores: o.Stores, Timeout: o.Timeout, Clock: o.Clock, Sign: o.Sign,
	})
	if err != nil {
		return err
	}
	s.Locator = tables
	s.Files = o.files(tables.Properties(), s.Grants)
	return nil
}
