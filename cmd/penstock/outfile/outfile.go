// Package outfile writes the file that --output names, whatever is at that path.
//
// A regular file is replaced as a whole or not at all: programs never read half of
// one. A symbolic link, a FIFO or a device at the path stays. A file that this process has
// open, such as the one behind /dev/stdout, is written to where it stands.
package outfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Modes of created files.
const (
	readable fs.FileMode = 0o666 // before the umask
	private  fs.FileMode = 0o600 // until a file has the permissions of the one it replaces
)

// TargetError is returned for a path that cannot be an output.
type TargetError struct{ Message string }

func (e TargetError) Error() string { return e.Message }

// Write calls f with a writer for path.
//
// A regular file is replaced, by a rename, only after f has returned without an error. The
// new file has the owner and permissions of the old one. If path is a symbolic link, the
// file that it points to is replaced or created. If it is a device or a FIFO, f writes into
// it. If it names a descriptor of this process, as /dev/stdout does, f writes to that
// descriptor, after everything else that was written to it.
func Write(ctx context.Context, path string, f func(io.Writer) error) error {
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found = nil
	case err != nil:
		return unwritten(path, err)
	case found.IsDir():
		return TargetError{fmt.Sprintf("--output %s is a folder: name a file in it", path)}
	case found.Mode()&fs.ModeSocket != 0:
		return TargetError{fmt.Sprintf("--output %s is a socket: name a file, a FIFO or a device", path)}
	case !found.Mode().IsRegular():
		return writeInto(ctx, path, f)
	}
	target, err := linked(path)
	if err != nil {
		return unwritten(path, err)
	}
	if fd, ok := descriptor(target); ok {
		return writeOpen(path, fd, f)
	}
	if found != nil {
		// A link of /proc may name a file that was removed or replaced.
		if at, err := os.Lstat(target); err != nil || !os.SameFile(found, at) {
			return writeInto(ctx, path, f)
		}
	}
	return replace(target, found, f)
}

// unwritten returns the error of a path that cannot be written. It names path, instead of
// the temporary file that the system's error may name.
func unwritten(path string, err error) error {
	var of *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fault.New(fault.Unavailable, "write %s: %w", path, err).
		WithRemedy("name a file with --output in a folder that exists and that this user may write")
}

// maxLinks bounds a chain of symbolic links, as Linux does.
const maxLinks = 40

// linked follows the symbolic links at path to the file that they name, which may not
// exist, or to a descriptor of this process. Like the system, it resolves folders before
// "..".
func linked(path string) (string, error) {
	for range maxLinks {
		folder, name := filepath.Split(path)
		if folder == "" {
			folder = "."
		}
		folder, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return "", err
		}
		path = filepath.Join(folder, name)
		if _, ok := descriptor(path); ok {
			return path, nil
		}
		at, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		case at.Mode()&fs.ModeSymlink == 0:
			return path, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		path = to
		if !filepath.IsAbs(to) {
			// Not filepath.Join: it would take "link/.." for the link's own folder.
			path = folder + string(filepath.Separator) + to
		}
	}
	return "", errors.New("too many symbolic links")
}

// replace lets f write a file beside path, and renames it to path. old is the file at path
// now, or nil.
func replace(path string, old fs.FileInfo, f func(io.Writer) error) (err error) {
	mode := readable
	if old != nil {
		mode = private
	}
	file, err := createBeside(path, mode)
	if err != nil {
		return unwritten(path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := f(besideWriter{file, path}); err != nil {
		return errors.Join(err, file.Close())
	}
	if old != nil {
		keepOwner(file, old)
		err = file.Chmod(old.Mode().Perm())
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return unwritten(path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return unwritten(path, err)
	}
	return nil
}

// besideWriter writes to a file beside path. Its errors name path.
type besideWriter struct {
	file *os.File
	path string
}

func (n besideWriter) Write(p []byte) (int, error) {
	written, err := n.file.Write(p)
	if err != nil {
		err = unwritten(n.path, err)
	}
	return written, err
}

// createBeside creates a new file in the folder of path, under a name that programs skip
// when they list the folder.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	folder, _ := filepath.Split(path)
	for {
		// The name of path is no part of it: a long name could not be extended.
		file, err := os.OpenFile(folder+".penstock-"+rand.Text()[:8]+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// writeOpen lets f write to a descriptor. Opening its file again would overwrite what other
// programs have written to it, and renaming another file over it would lose that.
func writeOpen(path string, fd int, f func(io.Writer) error) error {
	file, err := duplicate(fd, path)
	if err != nil {
		return unwritten(path, err)
	}
	return errors.Join(f(file), file.Close())
}

// writeInto lets f write to the existing file at path. Opening a FIFO waits for a reader,
// and so does writing to it, until ctx ends.
func writeInto(ctx context.Context, path string, f func(io.Writer) error) error {
	type opened struct {
		file *os.File
		err  error
	}
	arrived := make(chan opened, 1)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		arrived <- opened{file, err}
	}()
	var to opened
	select {
	case to = <-arrived:
	case <-ctx.Done():
		return ctx.Err() // the pending open ends with the process
	}
	if to.err != nil {
		return unwritten(path, to.err)
	}
	defer context.AfterFunc(ctx, func() { _ = to.file.SetWriteDeadline(time.Unix(1, 0)) })() // writes to files without deadlines do not wait
	err := f(to.file)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errors.Join(err, to.file.Close())
}
