package sqlcat

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.CurrentLister = (*Catalog)(nil)

// List returns the names of all tables. If the database has only tables of other catalogs, List
// returns NotFound with the names of these catalogs. See locator.Lister.
func (c *Catalog) List(ctx context.Context) ([][]string, error) {
	text, err := c.ask(ctx, reading, c.list)
	if err != nil {
		return nil, err
	}
	var tables [][]string
	if err := json.Unmarshal([]byte(text), &tables); err != nil {
		return nil, fault.New(fault.Internal, "list catalog %s: %w", c.name, err)
	}
	return tables, nil
}

// list selects whole rows, for the reason given at locate. It returns the names as JSON.
func (c *Catalog) list(ctx context.Context, db *sql.DB) (string, error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`SELECT * FROM iceberg_tables WHERE catalog_name = %s`, c.mark(1)), c.name)
	if err != nil {
		return "", c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // Err returns its errors
	tables, known := [][]string{}, false
	for rows.Next() {
		known = true
		row, err := scanRow(rows)
		if err != nil {
			return "", c.broken(err)
		}
		if !strings.EqualFold(row["iceberg_type"], "VIEW") {
			tables = append(tables, append(strings.Split(row["table_namespace"], "."), row["table_name"]))
		}
	}
	if err := rows.Err(); err != nil {
		return "", c.broken(err)
	}
	if !known {
		others, err := c.catalogs(ctx, db)
		if err != nil {
			return "", err
		}
		if len(others) > 0 {
			return "", c.elsewhere(fault.New(fault.NotFound, "the catalog has no tables"), others)
		}
	}
	text, err := json.Marshal(tables)
	return string(text), err
}

// ListCurrent returns the locations of the current and the previous metadata file in every row,
// including the rows of other catalogs in the database. See locator.CurrentLister.
func (c *Catalog) ListCurrent(ctx context.Context) ([]string, error) {
	text, err := c.ask(ctx, reading, c.listCurrent)
	if err != nil {
		return nil, err
	}
	var locations []string
	if err := json.Unmarshal([]byte(text), &locations); err != nil {
		return nil, fault.New(fault.Internal, "list the metadata files of catalog %s: %w", c.name, err)
	}
	return locations, nil
}

// listCurrent returns the locations as JSON.
func (c *Catalog) listCurrent(ctx context.Context, db *sql.DB) (string, error) {
	rows, err := db.QueryContext(ctx, `SELECT * FROM iceberg_tables`)
	if err != nil {
		return "", c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // Err returns its errors
	locations := []string{}
	for rows.Next() {
		row, err := scanRow(rows)
		if err != nil {
			return "", c.broken(err)
		}
		for _, column := range []string{"metadata_location", "previous_metadata_location"} {
			if row[column] != "" {
				locations = append(locations, row[column])
			}
		}
	}
	if err := rows.Err(); err != nil {
		return "", c.broken(err)
	}
	text, err := json.Marshal(locations)
	return string(text), err
}
