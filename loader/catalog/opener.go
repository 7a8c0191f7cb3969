package catalog

import (
	"context"

	"github.com/penstock/penstock/internal/store"
)

// Opener opens the files of tables with the credentials that the catalog grants for each table: the
// same location may be readable as a file of one table and not as a file of another table. It is
// safe for concurrent use.
type Opener interface {
	// Open opens a file that the metadata of a table names. Size and errors are as in
	// store.Store. The caller closes the object.
	Open(ctx context.Context, t *Table, location string, size int64) (store.Object, error)
}
