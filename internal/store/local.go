package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/penstock/penstock/internal/fault"
)

// Local reads files of this machine. The zero value is ready.
type Local struct{}

// Open opens a local file; see Path for the locations it takes.
func (Local) Open(ctx context.Context, location string, size int64) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, localError("open", location, err)
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, errors.Join(localError("open", location, err), file.Close())
	}
	o := &localObject{file: file, location: location, size: stat.Size()}
	if !stat.Mode().IsRegular() {
		return nil, errors.Join(fault.New(fault.Corrupt, "%s is no plain file", location).In("", location), file.Close())
	}
	if err := CheckSize(location, o.size, size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return o, nil
}

type localObject struct {
	file     *os.File
	location string
	size     int64
}

func (o *localObject) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := CheckRange(o, len(p), off); err != nil {
		return err
	}
	n, err := o.file.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return fault.New(fault.Corrupt, "file %s became shorter while it was read: it ends at byte %d", o.location, off+int64(n)).
			In("", o.location)
	default:
		return localError("read", o.location, err)
	}
}

func (o *localObject) Size() int64      { return o.size }
func (o *localObject) Location() string { return o.location }

func (o *localObject) Close() error {
	if err := o.file.Close(); err != nil {
		return localError("close", o.location, err)
	}
	return nil
}

// localError gives an error of the operating system its kind.
func localError(call, location string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Missing(location)
	}
	return fault.New(fault.Unavailable, "%s file %s: %w", call, location, err).In("", location).
		WithRemedy("see that the server may read the file and that its disk is well")
}
