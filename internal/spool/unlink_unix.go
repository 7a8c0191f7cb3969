//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package spool

import (
	"os"
	"syscall"
)

// lock marks a file that has a name as used by a process that runs.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweep removes a file unless a process that runs has locked it. One that
// another process has just created and not yet locked or unlinked may go too:
// its descriptor is all that process needs.
func sweep(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if lock(f) == nil {
		_ = os.Remove(path) // one that stays is tried again at the next start
	}
}
