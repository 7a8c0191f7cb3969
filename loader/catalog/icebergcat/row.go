package icebergcat

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// metadataLocation asks the catalog where a table's metadata is. It selects
// whole rows and looks at the columns' names, because only newer catalogs have
// the column iceberg_type that sets views apart, and a catalog may gain it
// while we run.
func (c *Catalog) metadataLocation(ctx context.Context, name string, parts []string) (string, error) {
	return ask(ctx, c, func(ctx context.Context, db *sql.DB) (string, error) { return c.locate(ctx, db, name, parts) })
}

func (c *Catalog) locate(ctx context.Context, db *sql.DB, name string, parts []string) (string, error) {
	last := len(parts) - 1
	rows, err := db.QueryContext(ctx,
		`SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`,
		c.name, strings.Join(parts[:last], "."), parts[last])
	if code(err) == sqlite3.SQLITE_ERROR {
		if none := c.isCatalog(ctx, db); none != nil {
			return "", lost(none)
		}
	}
	if err != nil {
		return "", c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return "", c.broken(err)
		}
		return "", c.unknownTable(ctx, db, name)
	}
	row, err := scanRow(rows)
	if err != nil {
		return "", c.broken(err)
	}
	if strings.EqualFold(row["iceberg_type"], "VIEW") {
		return "", fault.New(fault.Invalid, "%s is a view, not a table", name).In(name, "").
			WithRemedy("name a table: views are not served")
	}
	location := row["metadata_location"]
	if location == "" {
		return "", corrupt(name, c.path, "catalog %s names no metadata of table %s", c.name, name)
	}
	return location, nil
}

// scanRow returns a row's text columns by name; NULL is "".
func scanRow(rows *sql.Rows) (map[string]string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(columns))
	for i, column := range columns {
		row[strings.ToLower(column)] = values[i].String
	}
	return row, nil
}

// unknownTable is the failure of a name that the catalog does not have. If
// the file holds tables under other catalog names only, that is the likely
// mistake, and it says so.
func (c *Catalog) unknownTable(ctx context.Context, db *sql.DB, name string) error {
	tables, err := c.column(ctx, db, `SELECT table_namespace || '.' || table_name FROM iceberg_tables WHERE catalog_name = ?`, c.name)
	if err != nil {
		return err
	}
	e := catalog.UnknownTable(name, tables)
	if len(tables) > 0 {
		return e
	}
	catalogs, err := c.column(ctx, db, `SELECT DISTINCT catalog_name FROM iceberg_tables`)
	if err != nil {
		return err
	}
	if len(catalogs) == 0 {
		return e.WithRemedy("catalog %s has no tables at all; look whether its uri is right", c.path)
	}
	slices.Sort(catalogs)
	return e.WithRemedy("%s holds no tables of a catalog called %q; set name: to one of: %s", c.path, c.name, strings.Join(catalogs, ", "))
}

// column returns the values of a query of one text column.
func (c *Catalog) column(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, c.broken(err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, c.broken(err)
	}
	return out, nil
}
