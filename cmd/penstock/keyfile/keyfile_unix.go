//go:build unix

package keyfile

import (
	"fmt"
	"os"
	"syscall"
)

// Permission bits of a file's group and of all others.
const (
	othersWrite = 0o022
	othersAny   = 0o077
)

// writers names the users other than root and this one who may write a file; "" is none.
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

// usableByOthers reports whether users other than its owner may use a file in any way.
func usableByOthers(file os.FileInfo) bool { return file.Mode().Perm()&othersAny != 0 }
