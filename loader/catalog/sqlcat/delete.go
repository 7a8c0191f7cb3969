package sqlcat

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/catalog/locator"
)

// Delete deletes the table's row in one statement, on the condition that the location in it is
// unchanged. See locator.Swapper.
func (c *Catalog) Delete(ctx context.Context, t locator.Table, from string) (locator.Outcome, error) {
	return c.changed(ctx, writing, "drop table "+t.Name, func(ctx context.Context, db *sql.DB) (string, error) { return c.delete(ctx, db, t, from) })
}

func (c *Catalog) delete(ctx context.Context, db *sql.DB, t locator.Table, from string) (string, error) {
	last := len(t.Parts) - 1
	statement := fmt.Sprintf(`DELETE FROM iceberg_tables WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s AND metadata_location = %s`,
		c.mark(1), c.mark(2), c.mark(3), c.mark(4)) //nolint:mnd // the numbers of the arguments
	return changedRow(ctx, db, statement, c.name, strings.Join(t.Parts[:last], "."), t.Parts[last], from)
}
