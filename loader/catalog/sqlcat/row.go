package sqlcat

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Locate returns the location of a table's metadata file. See locator.Locator.
func (c *Catalog) Locate(ctx context.Context, t locator.Table) (locator.Located, error) {
	location, err := c.ask(ctx, reading, func(ctx context.Context, db *sql.DB) (string, error) { return c.locate(ctx, db, t) })
	return locator.Located{Location: location}, err
}

// locate selects the table's whole row. It does not name the column iceberg_type, which
// distinguishes views from tables: only newer catalogs have it, and it may be added while the
// process runs.
func (c *Catalog) locate(ctx context.Context, db *sql.DB, t locator.Table) (string, error) {
	last := len(t.Parts) - 1
	query := fmt.Sprintf(`SELECT * FROM iceberg_tables WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s`,
		c.mark(1), c.mark(2), c.mark(3))
	rows, err := db.QueryContext(ctx, query, c.name, strings.Join(t.Parts[:last], "."), t.Parts[last])
	if err != nil {
		if _, none := c.isCatalog(ctx, db); fault.KindOf(none) == fault.Invalid {
			return "", lost(none, c.restore)
		}
		return "", c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // Err returns its errors
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return "", c.broken(err)
		}
		return "", c.unknownTable(ctx, db, t.Name)
	}
	row, err := scanRow(rows)
	if err != nil {
		return "", c.broken(err)
	}
	if strings.EqualFold(row["iceberg_type"], "VIEW") {
		return "", fault.New(fault.Invalid, "%s is a view, not a table", t.Name).In(t.Name, "").
			WithRemedy("name a table: views are not served")
	}
	location := row["metadata_location"]
	if location == "" {
		return "", fault.New(fault.Corrupt, "catalog %s has no metadata location for table %s", c.name, t.Name).In(t.Name, c.subject)
	}
	return location, nil
}

// isCatalog returns an error if a database contains no catalog.
func (c *Catalog) isCatalog(ctx context.Context, db *sql.DB) (string, error) {
	rows, err := db.QueryContext(ctx, `SELECT catalog_name FROM iceberg_tables WHERE 1 = 0`)
	if err == nil {
		_ = rows.Close()
		if err = rows.Err(); err == nil {
			return "", nil
		}
	}
	if !c.undefined(err) {
		return "", c.broken(err)
	}
	return "", fault.InvalidField("uri", "%s holds no Iceberg catalog: it has no table iceberg_tables", c.subject).In("", c.subject).
		WithRemedy("name the database that PyIceberg, Spark or another writer keeps its SQL catalog in")
}

// lost returns the error for a catalog that was valid when the process started, and that is now
// missing or no longer a catalog. The error is Unavailable, because the query is valid and may be
// retried.
func lost(err error, remedy string) error {
	e := *fault.As(err)
	e.Kind, e.Faults, e.Err = fault.Unavailable, nil, err
	return e.WithRemedy("%s", remedy)
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

// unknownTable returns the error for a table that the catalog does not have. If the database has
// tables only under other catalog names, the error lists these names.
func (c *Catalog) unknownTable(ctx context.Context, db *sql.DB, name string) error {
	tables, err := c.column(ctx, db, `SELECT table_namespace || '.' || table_name FROM iceberg_tables WHERE catalog_name = `+c.mark(1), c.name)
	if err != nil {
		return err
	}
	e := catalog.UnknownTable(name, tables)
	if len(tables) > 0 {
		return e
	}
	catalogs, err := c.catalogs(ctx, db)
	if err != nil {
		return err
	}
	return c.elsewhere(e, catalogs)
}

// catalogs returns the sorted names of the catalogs that have tables in the database.
func (c *Catalog) catalogs(ctx context.Context, db *sql.DB) ([]string, error) {
	names, err := c.column(ctx, db, `SELECT DISTINCT catalog_name FROM iceberg_tables`)
	slices.Sort(names)
	return names, err
}

// elsewhere adds the names of the catalogs that have tables in the database to an error.
func (c *Catalog) elsewhere(e *fault.Error, catalogs []string) *fault.Error {
	if len(catalogs) == 0 {
		return e.WithRemedy("catalog %s has no tables; check its uri", c.subject)
	}
	return e.WithRemedy("%s holds no tables of a catalog called %q; set name: to one of: %s", c.subject, c.name, strings.Join(catalogs, ", "))
}

// column runs a query that selects one text column, and returns its values.
func (c *Catalog) column(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // Err returns its errors
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
