//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package spool

import (
	"os"
	"syscall"
)

// lock marks a file that still has a name as used by a running process.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweepFile removes a regular file unless a running process has locked it. It may also remove a
// file that another process has just created and not yet unlinked or locked. This does no harm,
// since that process needs only the file's descriptor. sweepFile reports whether it removed the file.
func sweepFile(path string) bool {
	// Another file may have taken the name. Opening a FIFO, for example, would block until it has a
	// writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()                                 //nolint:errcheck // nothing was written
	return lock(f) == nil && os.Remove(path) == nil // if Remove fails, the next Open tries again
}
