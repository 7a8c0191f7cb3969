package icebergcat

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/dircat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
	"github.com/penstock/penstock/loader/dataset"
)

// kind has the function that opens catalogs of a type, and the properties that they read.
type kind struct {
	open       func(Options, context.Context, *metadata.Source) error
	properties []string
}

// kinds returns the kind of each type in dataset.CatalogTypes.
func kinds() map[string]kind {
	return map[string]kind{
		dataset.CatalogSQL:       {open: Options.openSQL},
		dataset.CatalogREST:      {open: Options.openREST, properties: restcat.Properties()},
		dataset.CatalogDirectory: {open: Options.openDirectory, properties: []string{tablesPrefix}},
	}
}

// Properties returns the names of the properties that catalogs of a type read, except the
// properties for storage. A name that ends in a dot stands for all properties that begin with it.
func Properties(of string) []string { return kinds()[of].properties }

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

// open sets the Locator and the Files of a source.
func (o Options) open(ctx context.Context, s *metadata.Source) error {
	if of, ok := kinds()[o.Type]; ok {
		s.Files = o.files(func(context.Context) (map[string]string, error) { return o.Properties, nil }, nil)
		return of.open(o, ctx, s)
	}
	e := fault.InvalidField("type", "catalog type %q is not supported by this version", o.Type)
	if remedy, ok := unsupported()[o.Type]; ok {
		return e.WithRemedy("%s", remedy)
	}
	near := ""
	var served []string
	for _, t := range dataset.CatalogTypes() {
		served = append(served, t.Name)
		if slices.Contains(slices.Concat(t.Also, t.Schemes), o.Type) {
			near = t.Name
		}
	}
	near = cmp.Or(near, fault.Nearest(o.Type, served))
	e.Faults[0].Nearest = near
	remedy := "use one of: " + strings.Join(served, ", ")
	if near != "" {
		remedy = "did you mean " + near + "? " + remedy
	}
	return e.WithRemedy("%s", remedy)
}

func (o Options) openSQL(ctx context.Context, s *metadata.Source) error {
	if scheme := store.Scheme(o.Warehouse); scheme != "" && scheme != "file" && len(o.Stores) == 0 {
		return fault.InvalidField("warehouse", "storage scheme %q is not supported by this version", scheme).
			WithRemedy("%s", o.Stores.Served())
	}
	tables, err := sqlcat.Open(ctx, sqlcat.Options{Name: o.Name, URI: o.URI, BaseDir: o.BaseDir, Calls: o.Calls, Timeout: o.Timeout, Clock: o.Clock, Created: o.Created, Unreachable: o.Unreachable})
	if err != nil {
		return err
	}
	s.Locator = tables
	return nil
}

// checkWrites returns an error if the options allow writes and catalogs of this type do not support
// writes.
func (o Options) checkWrites() error {
	if of, _ := dataset.CatalogTypeOf(o.Type); !of.ReadOnly || len(o.WriteNamespaces) == 0 {
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
		Unreachable: o.Unreachable,
	})
	if err != nil {
		return err
	}
	s.Locator = tables
	s.Files = o.files(tables.Properties, s.Grants)
	return nil
}
