package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/penstock/penstock/internal/fault"
)

// systemCalls makes the calls to the operating system. Tests replace some of them.
type systemCalls struct {
	create func(path string) (diskFile, error)
	open   func(path string) (diskFile, error)
	rename func(from, to string) error
	remove func(path string) error
}

// diskFile is an open file.
type diskFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Modes of the folder and files that the tier creates: other users can neither list nor read them.
const (
	folderMode  = 0o700
	fileMode    = 0o600
	othersModes = 0o077
)

// realSystem returns the calls of the operating system.
func realSystem() systemCalls {
	return systemCalls{
		create: func(path string) (diskFile, error) {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, fileMode)
			if err != nil {
				return nil, err
			}
			return f, nil
		},
		open: func(path string) (diskFile, error) {
			f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
			if err != nil {
				return nil, err
			}
			return f, nil
		},
		rename: os.Rename,
		remove: func(path string) error {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		},
	}
}

// private returns an error unless a file is a regular file that only this process's user owns and
// has access to.
func private(found fs.FileInfo) error {
	if !found.Mode().IsRegular() || found.Mode().Perm()&othersModes != 0 || !ours(found) {
		return fault.New(fault.Corrupt, "file %s of the disk tier has mode %s, or belongs to another user", found.Name(), found.Mode())
	}
	return nil
}
