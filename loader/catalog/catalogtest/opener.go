package catalogtest

import (
	"context"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
)

// FromStore returns an Opener that opens the files of all tables in one store, without credentials
// from a catalog.
func FromStore(files store.Store) catalog.Opener { return stored{files} }

type stored struct{ files store.Store }

// Open opens a file of any table.
func (s stored) Open(ctx context.Context, _ *catalog.Table, location string, size int64) (store.Object, error) {
	return s.files.Open(ctx, location, size)
}
