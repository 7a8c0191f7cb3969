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
// since that process needs only the file's descriptor.
func sweepFile(path string) {
	// Another file may have taken the name. Opening a FIFO, for example, would block until it has a
	// writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if lock(f) == nil {
		_ = os.Remove(path) // if this fails, the next Open tries again
	}
}
