//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noFollow refuses to open symbolic links, and does not wait for pipes.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ours reports whether a file belongs to this process's user.
func ours(found fs.FileInfo) bool {
	owner, ok := found.Sys().(*syscall.Stat_t)
	return ok && int64(owner.Uid) == int64(os.Geteuid())
}

// lock locks an open file for this process. It reports whether another process has locked the file.
func lock(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), err
}

// isFull reports whether an error means that the disk has no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
