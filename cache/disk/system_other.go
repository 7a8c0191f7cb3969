//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package disk

import (
	"errors"
	"io/fs"
	"os"
)

const noFollow = 0

// ours reports that nothing is known about the owner: the tier is not used on these systems.
func ours(fs.FileInfo) bool { return false }

// lock fails: these systems cannot keep a second process out.
func lock(*os.File) (taken bool, err error) { return false, errors.ErrUnsupported }

func isFull(error) bool { return false }
