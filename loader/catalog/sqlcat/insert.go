package sqlcat

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/catalog/locator"
)

// Insert adds the row of a new table in one statement, if there is no row with its name. It sets
// only the columns that every version of the catalog has, like PyIceberg. Java's JdbcCatalog and
// iceberg-go consider a row without iceberg_type to be a table. Insert creates the catalog's file if
// Options.Created allows it. See locator.Swapper.
func (c *Catalog) Insert(ctx context.Context, t locator.Table, location string) (locator.Outcome, error) {
	return c.changed(ctx, newTable, "create table "+t.Name, func(ctx context.Context, db *sql.DB) (string, error) { return c.insert(ctx, db, t, location) })
}

func (c *Catalog) insert(ctx context.Context, db *sql.DB, t locator.Table, location string) (string, error) {
	last := len(t.Parts) - 1
	statement := fmt.Sprintf(`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) `+
		`SELECT %s, %s, %s, %s WHERE NOT EXISTS (SELECT 1 FROM iceberg_tables `+
		`WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s) ON CONFLICT DO NOTHING`,
		c.mark(1), c.mark(2), c.mark(3), c.mark(4), c.mark(5), c.mark(6), c.mark(7)) //nolint:mnd // the numbers of the arguments
	namespace := strings.Join(t.Parts[:last], ".")
	return changedRow(ctx, db, statement, c.name, namespace, t.Parts[last], location, c.name, namespace, t.Parts[last])
}
