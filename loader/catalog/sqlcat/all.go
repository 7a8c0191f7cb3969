package sqlcat

import (
	"context"
	"database/sql"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.Together = (*Catalog)(nil)

// maxTogether is the maximum number of tables in one statement. Databases limit the size of
// statements.
const maxTogether = 200

// LocateAll returns the locations of tables, with one connection and one statement for all of them.
// It leaves out the tables after the first maxTogether. See locator.Together.
func (c *Catalog) LocateAll(ctx context.Context, tables []locator.Table) (map[string]locator.Located, error) {
	tables = tables[:min(len(tables), maxTogether)]
	var found map[string]locator.Located
	_, err := c.ask(ctx, reading, func(ctx context.Context, db *sql.DB) (_ string, err error) {
		found, err = c.locateAll(ctx, db, tables) // found is used only if ask returns no error, and so only after this function has returned
		return "", err
	})
	switch {
	case fault.KindOf(err) == fault.Unavailable:
		return nil, err
	case err != nil:
		return nil, nil // the lookup of each table returns the error
	}
	return found, nil
}

// locateAll selects the rows of several tables. See locate.
func (c *Catalog) locateAll(ctx context.Context, db *sql.DB, tables []locator.Table) (map[string]locator.Located, error) {
	names := make(map[[2]string]string, len(tables))
	args := []any{c.name}
	var query strings.Builder
	query.WriteString(`SELECT * FROM iceberg_tables WHERE catalog_name = ` + c.mark(1) + ` AND (`)
	for i, t := range tables {
		last := len(t.Parts) - 1
		namespace, name := strings.Join(t.Parts[:last], "."), t.Parts[last]
		names[[2]string{namespace, name}] = t.Name
		if i > 0 {
			query.WriteString(` OR `)
		}
		args = append(args, namespace, name)
		query.WriteString(`table_namespace = ` + c.mark(len(args)-1) + ` AND table_name = ` + c.mark(len(args)))
	}
	query.WriteString(`)`)
	rows, err := db.QueryContext(ctx, query.String(), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err returns its errors
	found := map[string]locator.Located{}
	for rows.Next() {
		row, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		name, asked := names[[2]string{row["table_namespace"], row["table_name"]}]
		if location := row["metadata_location"]; asked && location != "" && !strings.EqualFold(row["iceberg_type"], "VIEW") {
			found[name] = locator.Located{Location: location}
		}
	}
	return found, rows.Err()
}
