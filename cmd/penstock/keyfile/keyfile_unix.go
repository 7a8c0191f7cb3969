//go:build unix

package keyfile

import (
	"fmt"
	"os"
	"slices"
	"syscall"
)

// Permission bits of a file's group and of all others.
const (
	othersWrite  = 0o022
	othersAny    = 0o077
	butGroupRead = 0o037 // the bits of othersAny, without the group's permission to read
)

// writers returns a text that describes which users, other than root and this one, may write a
// file. It returns "" if there are no such users.
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

// usableByOthers reports whether users other than the file's owner may access a file in any way.
// There is one exception: if root owns the file, and this process is not root but belongs to the
// file's group, the group may read the file. Root then uses the group to let this process read the
// file.
func usableByOthers(file os.FileInfo) bool {
	return file.Mode().Perm()&othersAny != 0 && !currentProcess().readsByGroup(file)
}

// processIDs holds the user and group ids of a process.
type processIDs struct {
	user   int
	groups []int
}

func currentProcess() processIDs {
	groups, _ := os.Getgroups() // after an error, groups is empty, so that more files are refused
	return processIDs{user: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// readsByGroup reports whether root owns a file, the process can read the file only as a member of
// the file's group, and the mode gives the group and others no further access. The files of
// Kubernetes secrets in a pod with fsGroup are like this.
func (p processIDs) readsByGroup(file os.FileInfo) bool {
	owner, ok := file.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && p.user != 0 && file.Mode().Perm()&butGroupRead == 0 && slices.Contains(p.groups, int(owner.Gid))
}
