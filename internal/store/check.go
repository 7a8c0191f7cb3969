package store

import (
	"io/fs"

	"github.com/penstock/penstock/internal/fault"
)

// Missing returns the error for a file that a table's metadata names and that does not exist.
// Implementations share it. It matches fs.ErrNotExist with errors.Is, so that callers can check
// whether the table's snapshot has expired.
func Missing(location string) error {
	e := fault.New(fault.Corrupt, "file %s is missing", location).In("", location).
		WithRemedy("restore the file, or read a snapshot that does not need it")
	e.Err = fs.ErrNotExist
	return e
}

// CheckSize returns an error if a file's length differs from the length in the metadata, unless
// that is SizeUnknown. Implementations call it.
func CheckSize(location string, got, want int64) error {
	if want == SizeUnknown || got == want {
		return nil
	}
	return fault.New(fault.Corrupt, "file %s has %d bytes, the table's metadata says %d", location, got, want).
		In("", location).WithRemedy("restore the file: files of a table never change; if the table's writer recorded wrong sizes, set file_sizes: storage in the catalog's block")
}

// CheckRange returns an error unless the object contains n bytes from off on.
// Implementations call it before they read.
func CheckRange(o Object, n int, off int64) error {
	if off >= 0 && off <= o.Size() && int64(n) <= o.Size()-off {
		return nil
	}
	return fault.New(fault.Corrupt, "file %s has %d bytes, but bytes %d to %d are requested", o.Location(), o.Size(), off, off+int64(n)).
		In("", o.Location())
}
