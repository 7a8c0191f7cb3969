//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package disk

import (
	"errors"
	"io/fs"
	"os"
)

const noFollow = 0

// ours returns false, because the owner is not known. The tier is not used on these systems.
func ours(fs.FileInfo) bool { return false }

// lock fails, because these systems have no lock against a second process.
func lock(*os.File) (taken bool, err error) { return false, errors.ErrUnsupported }

func isFull(error) bool { return false }
