// Package keyfile reads files that control access to a server. It checks what other users may do
// with these files.
package keyfile

import (
	"io"
	"os"

	"github.com/penstock/penstock/internal/fault"
)

// Use is what a file is used for, which determines what other users may do with it.
type Use int

const (
	// Secret files hold keys: other users may neither read nor write them.
	Secret Use = iota
	// Public files hold certificates or hashes: other users may read but not write them.
	Public
)

// maxBytes is the maximum size of a file.
const maxBytes = 16 << 20

// Read reads the file at path. setting is the name of the file's setting, for errors. Other users
// means users other than this one and root. Read refuses a file that another user owns or that
// other users may write. It refuses a secret file that other users may access in any way, except as
// described for usableByOthers.
func Read(setting, path string, use Use) ([]byte, error) {
	failed := func(err error) error {
		return fault.New(fault.Invalid, "read the file of %s: %w", setting, err).In("", path).WithRemedy("set %s to a file that this user may read", setting)
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, failed(err)
	}
	if !stat.Mode().IsRegular() { // opening it could block
		return nil, fault.InvalidField(setting, "%s is not a regular file", path).WithRemedy("set %s to a file that this user may read", setting)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, failed(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	if stat, err = file.Stat(); err != nil {
		return nil, failed(err)
	}
	if others := writers(stat); others != "" {
		return nil, fault.InvalidField(setting, "%s may write %s", others, path).In("", path).
			WithRemedy("make root or this user its owner, and chmod 600 it; if others could use it, make a new one")
	}
	if use == Secret && usableByOthers(stat) {
		return nil, fault.InvalidField(setting, "others than its owner may use %s (mode %s)", path, stat.Mode()).In("", path).
			WithRemedy("chmod 600 it; if others could read it, make a new one")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	switch {
	case err != nil:
		return nil, failed(err)
	case len(text) > maxBytes:
		return nil, fault.InvalidField(setting, "%s has more than %d bytes", path, maxBytes).In("", path)
	}
	return text, nil
}
