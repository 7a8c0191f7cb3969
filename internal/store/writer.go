package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/penstock/penstock/internal/fault"
)

// Writer makes and removes whole small files: metadata that a catalog is then told of.
// Tables' own files are only read. It is safe for concurrent use.
type Writer interface {
	// Create makes a file that holds content, and returns when storage has it safe. A file
	// that there is already is Conflict, and stays as it is. After another error nobody
	// knows whether the file is there, and content is not to be used before WhenReturned.
	Create(ctx context.Context, location string, content []byte) error
	// Remove removes a file, if it is there.
	Remove(ctx context.Context, location string) error
}

// Exists is the error for a file that was to be made and is there. Implementations share
// it so that all say the same.
func Exists(location string) error {
	return fault.New(fault.Conflict, "file %s is there already", location).In("", location)
}

// newFile is who may do what with a new file: as with those of other writers, whoever the
// umask lets.
const newFile = 0o666

var (
	_ Writer = Local{}
	_ Writer = (*Bounded)(nil)
)

// Create makes a local file. What it could not write whole it removes.
func (Local) Create(ctx context.Context, location string, content []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return err
	}
	made, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFile) //nolint:gosec // the umask says
	if errors.Is(err, os.ErrExist) {
		return Exists(location)
	}
	if err != nil {
		return unwritten(location, err)
	}
	_, err = made.Write(content)
	if err == nil {
		err = made.Sync()
	}
	if err = errors.Join(err, made.Close()); err == nil {
		err = syncFolder(path)
	}
	if err != nil {
		return unwritten(location, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// syncFolder has the name of a new file outlive the machine.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Remove removes a local file.
func (Local) Remove(ctx context.Context, location string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unwritten(location, err)
	}
	return nil
}

// unwritten is the failure of a file that was to be made or removed.
func unwritten(location string, err error) error {
	return fault.New(fault.Unavailable, "write file %s: %w", location, err).In("", location).
		WithRemedy("see that the server may write in that folder, and that its disk is well and not full")
}

// Create makes a file. One that is made when nobody waits for it any more stays.
func (b *Bounded) Create(ctx context.Context, location string, content []byte) error {
	return b.write(ctx, "write", location, func(ctx context.Context, under Writer) error { return under.Create(ctx, location, content) })
}

// Remove removes a file.
func (b *Bounded) Remove(ctx context.Context, location string) error {
	return b.write(ctx, "remove", location, func(ctx context.Context, under Writer) error { return under.Remove(ctx, location) })
}

func (b *Bounded) write(ctx context.Context, verb, location string, do func(context.Context, Writer) error) error {
	under, ok := b.under.(Writer)
	if !ok {
		return ReadOnly(location)
	}
	_, err := await(ctx, b.calls, b.calls.of(location), subject{verb, location}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx, under)
	})
	return err
}

// ReadOnly is the error for a file in a store that only reads.
func ReadOnly(location string) error {
	return fault.New(fault.Unavailable, "file %s cannot be written: its store is only read by this version", location).In("", location)
}
