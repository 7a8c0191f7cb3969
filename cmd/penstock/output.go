package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Modes of the files that are created.
const (
	readable fs.FileMode = 0o666 // the umask takes bits away
	private  fs.FileMode = 0o600 // until a file has the permissions of the one it replaces
)

// writing calls f with a writer for path, or for standard output if path is empty.
//
// A regular file is replaced, by a rename, only after f has returned without an
// error, so that nobody takes half a file for a whole one. The new file has the
// owner and permissions of the old one. A symbolic link stays, and the file that it
// points to is the one that is replaced or created. Devices and FIFOs stay too: f
// writes into them.
func (p process) writing(ctx context.Context, path string, f func(io.Writer) error) error {
	if path == "" {
		return f(p.stdout)
	}
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found = nil
	case err != nil:
		return unwritten(path, err)
	case found.IsDir():
		return usage("--output %s is a folder: name a file in it", path)
	case found.Mode()&fs.ModeSocket != 0:
		return usage("--output %s is a socket: name a file, a FIFO or a device", path)
	case !found.Mode().IsRegular():
		return writeInto(ctx, path, f)
	}
	target, err := linked(path)
	if err != nil {
		return unwritten(path, err)
	}
	if found != nil {
		// A link of /proc may name a file that has been removed, or another one by now.
		if at, err := os.Lstat(target); err != nil || !os.SameFile(found, at) {
			return writeInto(ctx, path, f)
		}
	}
	return replace(target, found, f)
}

// unwritten is the error of a file that cannot be written. It names path, and not the
// temporary file that the system's error may name.
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

// mostLinks bounds a chain of symbolic links, as Linux does.
const mostLinks = 40

// linked follows the symbolic links at path to the file that they name, which may
// not exist. Folders are resolved before "..", as the system does it.
func linked(path string) (string, error) {
	for range mostLinks {
		folder, name := filepath.Split(path)
		if folder == "" {
			folder = "."
		}
		folder, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return "", err
		}
		path = filepath.Join(folder, name)
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

// replace has f write a file beside path, and gives it that name. old is what path
// names now, or nil.
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

// besideWriter writes into a file beside path, and its errors name path.
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

// createBeside creates a new file in the folder of path, under a name that
// programs which list the folder skip.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	folder, _ := filepath.Split(path)
	for {
		// Without the name of path, to which nothing may be added if it is a long one.
		file, err := os.OpenFile(folder+".penstock-"+rand.Text()[:8]+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// writeInto has f write into what path names, which stays there. Opening a FIFO
// waits for a reader; the end of ctx ends that, and a write that waits for it.
func writeInto(ctx context.Context, path string, f func(io.Writer) error) error {
	type opened struct {
		file *os.File
		err  error
	}
	came := make(chan opened, 1)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		came <- opened{file, err}
	}()
	var to opened
	select {
	case to = <-came:
	case <-ctx.Done():
		return ctx.Err() // the process ends, and the open with it
	}
	if to.err != nil {
		return unwritten(path, to.err)
	}
	defer context.AfterFunc(ctx, func() { _ = to.file.SetWriteDeadline(time.Unix(1, 0)) })() // files without deadlines do not wait
	err := f(to.file)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errors.Join(err, to.file.Close())
}
