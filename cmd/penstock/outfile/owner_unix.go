//go:build unix

package outfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner and group of the file that it replaces. If this user may not
// set the owner, it sets only the group. If the user may not set the group either, the new file
// keeps its owner and group.
func keepOwner(file *os.File, old fs.FileInfo) {
	owner, ok := old.Sys().(*syscall.Stat_t)
	if ok && file.Chown(int(owner.Uid), int(owner.Gid)) != nil {
		_ = file.Chown(-1, int(owner.Gid))
	}
}
