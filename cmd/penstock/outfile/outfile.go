// Package outfile writes a file that a flag such as --output names.
//
// Files are replaced atomically, so that other programs never read a partial file. If the path is a
// symbolic link, the link stays, and the file that it points to is replaced. Other files that are
// not regular files are refused. Paths of open files, such as /dev/stdout, are refused as well,
// because other programs may write to the same files.
package outfile

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/penstock/penstock/internal/fault"
)

// Modes of created files.
const (
	readable fs.FileMode = 0o666 // before the umask
	private  fs.FileMode = 0o600 // the mode of a new file until it gets the permissions of the file that it replaces
)

// TargetError is the error for a path that cannot be the path of an output file. Its message begins with the path.
type TargetError struct{ Message string }

func (e TargetError) Error() string { return e.Message }

// Write calls f with a writer for path.
//
// f writes to a temporary file, which is renamed to path only after f has returned without an
// error. If there is a regular file at path, the new file replaces it, and gets its permissions
// and, if possible, its owner. If path is a symbolic link, the file that it points to is replaced
// or created. Write returns a TargetError if path names anything else.
func Write(path string, f func(io.Writer) error) error {
	found, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found = nil
	case err != nil:
		return unwritten(path, err)
	case found.IsDir():
		return TargetError{path + " is a folder: name a file in it"}
	case !found.Mode().IsRegular():
		return notRegular(path)
	}
	target, err := linked(path)
	if errors.Is(err, errOpenFile) {
		return notRegular(path)
	}
	if err != nil {
		return unwritten(path, err)
	}
	return replace(target, found, f)
}

// notRegular returns the error of a path that names no regular file.
func notRegular(path string) error {
	return TargetError{path + " is not a regular file: name a file"}
}

// errOpenFile is the error of a path that names an open file.
var errOpenFile = errors.New("the path names an open file")

// unwritten returns the error for a path that cannot be written. The error names path, even if the
// system's error names the temporary file.
func unwritten(path string, err error) error {
	var of *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &link):
		err = link.Err
	}
	failed := fault.New(fault.Unavailable, "write %s: %w", path, err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return failed.WithRemedy("the disk or its quota is full: free space there, or name a file on another disk")
	}
	return failed.WithRemedy("name a file in a folder that exists and that this user may write")
}

// maxLinks bounds a chain of symbolic links, as Linux does.
const maxLinks = 40

// linked follows the symbolic links at path, and returns the path of the file that they lead to.
// This file need not exist. Like the operating system, linked resolves symbolic links to folders
// before it applies "..".
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
		if folder == "/dev/fd" || strings.HasPrefix(folder, "/proc/") {
			return "", errOpenFile
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
			// The parts are not joined with filepath.Join, because it would shorten "link/.." to
			// the folder that contains the link.
			path = folder + string(filepath.Separator) + to
		}
	}
	return "", errors.New("too many symbolic links")
}

// replace calls f to write a temporary file in the folder of path, and renames the temporary file
// to path. old describes the file that exists at path; nil means that no file exists.
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

// besideWriter writes to a temporary file in the folder of path. Its errors name path.
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

// createBeside creates a file in the folder of path. Its name begins with a dot, so that programs
// skip it when they list the folder.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	folder, _ := filepath.Split(path)
	for {
		// The name of the temporary file does not include the name of path, which may already have
		// the maximum length.
		file, err := os.OpenFile(folder+".penstock-"+rand.Text()[:8]+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}
