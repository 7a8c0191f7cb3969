//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// Permissions of others than a file's owner.
const (
	othersWrite = 0o022
	othersRead  = 0o044
)

// writers says who beside root and this user may change a file, or "".
func writers(file os.FileInfo) string {
	owner, ok := file.Sys().(*syscall.Stat_t)
	switch {
	case file.Mode().Perm()&othersWrite != 0:
		return fmt.Sprintf("others (mode %s)", file.Mode())
	case ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()):
		return fmt.Sprintf("user %d", owner.Uid)
	default:
		return ""
	}
}

// readableByOthers says whether others than its owner may read a file.
func readableByOthers(file os.FileInfo) bool { return file.Mode().Perm()&othersRead != 0 }
