package sqlcat

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.Swapper = (*Catalog)(nil)

// swapped is the result of a swap that changed a row.
const swapped = "swapped"

// Swap updates the table's row in iceberg_tables in one statement, on the condition that the
// location in it is unchanged. PyIceberg, Spark and iceberg-go commit in the same way. See
// locator.Swapper.
func (c *Catalog) Swap(ctx context.Context, t locator.Table, from, to string) (locator.Outcome, error) {
	return c.changed(ctx, writing, "commit to table "+t.Name, func(ctx context.Context, db *sql.DB) (string, error) { return c.swap(ctx, db, t, from, to) })
}

// changed runs a statement that changes one row or none, and returns its outcome.
func (c *Catalog) changed(ctx context.Context, to purpose, operation string, statement question) (locator.Outcome, error) {
	found, err := c.ask(ctx, to, statement)
	switch {
	case err != nil:
		outcome, err := c.outcome(err)
		return outcome, fault.Op(err, "%s", operation)
	case found != swapped:
		return locator.Lost, nil
	}
	return locator.Committed, nil
}

// changedRow runs a statement that changes one row or none. It returns swapped if a row was changed, and otherwise "".
func changedRow(ctx context.Context, db *sql.DB, statement string, arguments ...any) (string, error) {
	done, err := db.ExecContext(ctx, statement, arguments...)
	if err != nil {
		return "", err
	}
	rows, err := done.RowsAffected()
	if err != nil || rows == 0 {
		return "", err
	}
	return swapped, nil
}

func (c *Catalog) swap(ctx context.Context, db *sql.DB, t locator.Table, from, to string) (string, error) {
	last := len(t.Parts) - 1
	statement := fmt.Sprintf(`UPDATE iceberg_tables SET metadata_location = %s, previous_metadata_location = %s `+
		`WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s AND metadata_location = %s`,
		c.mark(1), c.mark(2), c.mark(3), c.mark(4), c.mark(5), c.mark(6)) //nolint:mnd // the numbers of the arguments
	return changedRow(ctx, db, statement, to, from, c.name, strings.Join(t.Parts[:last], "."), t.Parts[last], from)
}
