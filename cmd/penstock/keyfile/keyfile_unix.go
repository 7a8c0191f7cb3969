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
	butGroupRead = 0o037 // othersAny without read permission of the group
)

// writers describes the users other than root and this one that may write a file. It returns "" if
// there are none.
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

// usableByOthers reports whether users other than its owner may access a file in any way. It
// ignores read permission of the group if root owns the file and this process belongs to the group:
// root then uses the group to let this process read the file.
func usableByOthers(file os.FileInfo) bool {
	return file.Mode().Perm()&othersAny != 0 && !currentProcess().readsByGroup(file)
}

// processIDs holds the user and group ids of a process.
type processIDs struct {
	user   int
	groups []int
}

func currentProcess() processIDs {
	groups, _ := os.Getgroups() // after an error, more files are refused
	return processIDs{user: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// readsByGroup reports whether the process can read a file of root only as a member of its group,
// and the mode gives others no further access. In a pod with fsGroup, the files of Kubernetes
// secrets are like this.
func (p processIDs) readsByGroup(file os.FileInfo) bool {
	owner, ok := file.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && p.user != 0 && file.Mode().Perm()&butGroupRead == 0 && slices.Contains(p.groups, int(owner.Gid))
}
