package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Writer creates and removes whole small files: metadata that is then committed to a
// catalog. Larger files, such as data files, are written by an Uploader. It is safe for
// concurrent use.
type Writer interface {
	// Create creates a file with a content, and returns when it is durable. Folders are
	// made as needed. It returns Conflict if the file exists, and does not change it. After any other error
	// the file may or may not exist, and the store may keep a reference to content and read it.
	Create(ctx context.Context, location string, content *memory.Buffer) error
	// Remove removes a file if it exists.
	Remove(ctx context.Context, location string) error
}

// Exists returns the error of Create for a file that exists. Implementations share it.
func Exists(location string) error {
	return fault.New(fault.Conflict, "file %s already exists", location).In("", location)
}

// newFile is the mode of a new file, minus the umask, as is usual.
const newFile = 0o666

var (
	_ Writer = Local{}
	_ Writer = (*Bounded)(nil)
)

// Create creates a local file. If it cannot write the file completely, it removes the file.
func (Local) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return err
	}
	if err = makeFolder(filepath.Dir(path)); err != nil {
		return unwritten(location, err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFile) //nolint:gosec // less the umask
	if errors.Is(err, os.ErrExist) {
		return Exists(location)
	}
	if err != nil {
		return unwritten(location, err)
	}
	_, err = file.Write(content.Bytes())
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = syncFolder(path)
	}
	if err != nil {
		return unwritten(location, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// syncFolder makes the name of a new file durable.
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

// unwritten returns the error for a file that could not be created or removed.
func unwritten(location string, err error) error {
	return fault.New(fault.Unavailable, "write file %s: %w", location, err).In("", location).
		WithRemedy("check that Penstock can write to that folder, and that its disk works and is not full")
}

// Create creates a file. If the caller has stopped waiting when the file is created, the file
// stays.
func (b *Bounded) Create(ctx context.Context, location string, content *memory.Buffer) error {
	pending, err := b.change(ctx, "write", location, func(ctx context.Context) error { return b.under.Create(ctx, location, content) })
	keepWhile(pending, content)
	return err
}

// Remove removes a file.
func (b *Bounded) Remove(ctx context.Context, location string) error {
	_, err := b.change(ctx, "remove", location, func(ctx context.Context) error { return b.under.Remove(ctx, location) })
	return err
}

// change runs a call that changes storage. The outcome of an abandoned call is unknown.
func (b *Bounded) change(ctx context.Context, verb, location string, do func(context.Context) error) (*Pending, error) {
	_, pending, err := await(ctx, b.calls, b.calls.of(location), subject{verb: verb, location: location}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx)
	})
	if pending != nil {
		err = WithUnknownOutcome(err)
	}
	return pending, err
}

// ReadOnly returns the error for a write to a store that only reads.
func ReadOnly(location string) error {
	return fault.New(fault.Unavailable, "file %s cannot be written: this version only reads from its store", location).In("", location)
}

// Unlistable returns the error for a folder of a store that does not list.
func Unlistable(location string) error {
	return fault.New(fault.Unavailable, "%s cannot be listed: this version only reads from its store", location).In("", location)
}
