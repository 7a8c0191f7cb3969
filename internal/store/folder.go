package store

import (
	"context"
	"os"
	"path/filepath"
)

// FolderMaker is a Writer of a storage that has folders.
type FolderMaker interface {
	// MakeFolder makes the folder of a file, and those above it, if they do not exist.
	MakeFolder(ctx context.Context, location string) error
}

var (
	_ FolderMaker = Local{}
	_ FolderMaker = (*Bounded)(nil)
)

// newFolder is the mode of a new folder, less the umask.
const newFolder = 0o777

// MakeFolder makes the folder of a local file.
func (Local) MakeFolder(ctx context.Context, location string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), newFolder); err != nil {
		return unwritten(location, err)
	}
	return syncFolder(filepath.Dir(path))
}

// MakeFolder makes the folder of a file, if the storage has folders.
func (b *Bounded) MakeFolder(ctx context.Context, location string) error {
	under, ok := b.under.(FolderMaker)
	if !ok {
		return nil
	}
	_, err := await(ctx, b.calls, b.calls.of(location), subject{"make the folder of", location}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, under.MakeFolder(ctx, location)
	})
	return err
}
