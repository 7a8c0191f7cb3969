package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Local reads and writes files of this machine. The zero value is ready. It checks the context
// before each call, but does not interrupt calls in the kernel. To stop waiting for such calls,
// wrap it in a Bounded.
type Local struct{ system system }

// system makes calls to the operating system. Tests replace some of them; the zero value replaces
// none.
type system struct {
	stat func(path string) (fs.FileInfo, error)
	open func(path string) (file, error)
	link func(from, to string) error
	sync func(path string) error // makes a file, or the folder that contains its name, durable
}

// file is an open file of the operating system.
type file interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// plain returns an error for a file that is not regular. Opening one may block forever,
// as with a pipe, or have side effects, as with a device.
func (s system) plain(path, location string) error {
	stat := s.stat
	if stat == nil {
		stat = os.Stat
	}
	found, err := stat(path)
	if err != nil {
		return localError("open", location, err)
	}
	return checkPlain(found, location)
}

func checkPlain(found fs.FileInfo, location string) error {
	if found.Mode().IsRegular() {
		return nil
	}
	return fault.New(fault.Corrupt, "%s is not a regular file", location).In("", location).
		WithRemedy("check which file the table's metadata names, and restore it")
}

func (s system) openFile(path string) (file, error) {
	if s.open != nil {
		return s.open(path)
	}
	return os.Open(path)
}

func (s system) linkFile(from, to string) error {
	if s.link != nil {
		return s.link(from, to)
	}
	return os.Link(from, to)
}

// syncFile returns when the content of a file is durable.
func (s system) syncFile(file *os.File) error {
	if s.sync != nil {
		return s.sync(file.Name())
	}
	return file.Sync()
}

// syncName returns when the name of a file is durable.
func (s system) syncName(path string) error {
	if s.sync != nil {
		return s.sync(path)
	}
	return syncFolder(path)
}

// Open opens a local file. See Path for the locations that it accepts.
func (l Local) Open(ctx context.Context, location string, size int64) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return nil, err
	}
	if err := l.system.plain(path, location); err != nil {
		return nil, err
	}
	file, err := l.system.openFile(path)
	if err != nil {
		return nil, localError("open", location, err)
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, errors.Join(localError("open", location, err), file.Close())
	}
	o := &localObject{file: file, location: location, size: stat.Size()}
	if err = checkPlain(stat, location); err == nil {
		err = CheckSize(location, o.size, size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return o, nil
}

type localObject struct {
	file     file
	location string
	size     int64
}

func (o *localObject) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := CheckRange(o, p.Len(), off); err != nil {
		return err
	}
	n, err := o.file.ReadAt(p.Bytes(), off)
	switch {
	case n == p.Len():
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

// localError converts an error of the operating system.
func localError(call, location string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Missing(location)
	}
	return fault.New(fault.Unavailable, "%s file %s: %w", call, location, err).In("", location).
		WithRemedy("check that Penstock can read the file and that its disk works")
}
