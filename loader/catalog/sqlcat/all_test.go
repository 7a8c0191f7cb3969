package sqlcat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

// Several tables are located as each by itself. Views, tables that do not exist, those of other catalogs and
// namespaces, and those without a location are left out, and so is everything if the question fails.
//
// spec: catalog-33
func TestLocateAll(t *testing.T) {
	kinds := map[string]func(*testing.T) owned{
		"sqlite": func(t *testing.T) owned { return sqlite(t, "DELETE") },
		"postgres": func(t *testing.T) owned {
			uri := postgrestest.Start(t).Database(t)
			return owned{db: connect(t, uri), o: sqlcat.Options{Name: "prod", URI: uri}}
		},
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			d := make(t)
			const into = `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES `
			execute(t, d.db, oldTables, addType, insert("events", "s3://b/1.json"), insert("recent", "s3://b/2.json"),
				into+`('prod', 'ml.eu', 'events', 's3://b/3.json'), ('prod', 'raw', 'clicks', 's3://b/4.json')`,
				into+`('dev', 'ml', 'other', 's3://b/5.json'), ('prod', 'ml', 'empty', NULL)`,
				`UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name = 'recent'`)
			c := d.open(t)
			var all []locator.Table
			for name, parts := range map[string][]string{
				"ml.events": {"ml", "events"}, "ml.eu.events": {"ml", "eu", "events"}, "ml.recent": {"ml", "recent"}, "ml.other": {"ml", "other"},
				"ml.clicks": {"ml", "clicks"}, "ml.empty": {"ml", "empty"}, "raw.events": {"raw", "events"},
			} {
				all = append(all, locator.Table{Name: name, Parts: parts})
			}
			found, err := c.LocateAll(t.Context(), all)
			require.NoError(t, err)
			require.Equal(t, map[string]locator.Located{
				"ml.events": {Location: "s3://b/1.json"}, "ml.eu.events": {Location: "s3://b/3.json"},
			}, found)
			execute(t, d.db, `DROP TABLE iceberg_tables`)
			found, err = c.LocateAll(t.Context(), all)
			require.NoError(t, err)
			require.Empty(t, found)
		})
	}
}
