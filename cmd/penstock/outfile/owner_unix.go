//go:build unix

package outfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner sets the owner and group of a new file to those of the file that it replaces, or only
// the group, or neither, as this user's permissions allow.
func keepOwner(file *os.File, old fs.FileInfo) {
	owner, ok := old.Sys().(*syscall.Stat_t)
	if ok && file.Chown(int(owner.Uid), int(owner.Gid)) != nil {
		_ = file.Chown(-1, int(owner.Gid))
	}
}
