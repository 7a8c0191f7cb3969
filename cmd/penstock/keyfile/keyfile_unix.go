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
	butGroupRead = 0o037 // othersAny without the group's reading
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

// usableByOthers reports whether users other than its owner may use a file in any way. A group that this process is in does not
// count if root gave it the file to read: the group is then how root lets this process read it.
func usableByOthers(file os.FileInfo) bool {
	return file.Mode().Perm()&othersAny != 0 && !currentProcess().readsByGroup(file)
}

// processIDs are the user and the groups of a process.
type processIDs struct {
	user   int
	groups []int
}

func currentProcess() processIDs {
	groups, _ := os.Getgroups() // without them, more files are refused
	return processIDs{user: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// readsByGroup reports whether a process can read a file of root as a member of its group, others can use it in no other way, and
// the process cannot read it otherwise. Files in Kubernetes' secrets are such files in a pod with fsGroup.
func (p processIDs) readsByGroup(file os.FileInfo) bool {
	owner, ok := file.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && p.user != 0 && file.Mode().Perm()&butGroupRead == 0 && slices.Contains(p.groups, int(owner.Gid))
}
