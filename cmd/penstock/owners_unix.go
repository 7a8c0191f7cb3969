//go:build linux || darwin

package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/penstock/penstock/internal/fault"
)

// The bytes of the file of owners. Each is locked by a process, with a record lock: forked processes do not have it, and the
// kernel releases it at any end of the process.
const (
	ownersDoor   = 0       // held to become an owner, to start the server, and by the server once it ends
	ownersFirst  = 1       // an owner has one of these
	ownersCount  = 1 << 20 // of them
	ownersServer = 1 << 30 // the server
)

// owners are the processes that share a private server. They hold locks in a file of its folder.
type owners struct {
	file *os.File // open until the process ends: closing it, or another descriptor of it, releases the locks
}

// openOwners opens the file of owners in the folder of a private server, for the server. It returns nil if there is none: the
// server's parent is its only owner.
func openOwners(folder string) (*owners, error) {
	path := filepath.Join(folder, privateOwners)
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		return nil, nil //nolint:nilnil // there are none
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "private %s: %w", folder, err)
	}
	o := &owners{file: file}
	if !o.lock(ownersServer, 1) {
		_ = file.Close()
		return nil, fault.New(fault.Unavailable, "private %s: another server serves its owners", folder)
	}
	return o, nil
}

// gone reports whether all owners have gone. If so, none can come any more: those who try wait until this process has ended.
func (o *owners) gone() bool {
	if !o.lock(ownersDoor, 1) {
		return false
	}
	if o.lock(ownersFirst, ownersCount) {
		return true
	}
	o.unlock(ownersDoor)
	return false
}

// lock locks bytes of the file, unless another process has locked one of them.
func (o *owners) lock(start, count int64) bool { return o.set(syscall.F_WRLCK, start, count) == nil }

// unlock releases a byte.
func (o *owners) unlock(start int64) { _ = o.set(syscall.F_UNLCK, start, 1) }

func (o *owners) set(kind int16, start, count int64) error {
	lock := syscall.Flock_t{Type: kind, Whence: 0, Start: start, Len: count}
	return syscall.FcntlFlock(o.file.Fd(), syscall.F_SETLK, &lock)
}
