//go:build linux || darwin

package owners

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/penstock/penstock/internal/fault"
)

// The offsets of the bytes in the file of owners that processes lock. The locks are record locks:
// forked processes do not inherit them, and the kernel releases them however a process ends.
const (
	door   = 0       // locked by a process while it becomes an owner or starts the server, and by a server that is about to end
	first  = 1       // the first of the bytes for owners; each owner locks one of them
	count  = 1 << 20 // number of bytes for owners
	server = 1 << 30 // locked by the server
)

// Owners is the set of processes that share a private server.
type Owners struct {
	file *os.File // stays open until the process ends, because closing any descriptor of the file would release all locks of the process
}

// Open opens the file of owners in the folder of a private server. Only the server calls it. If
// there is no such file, Open returns nil, which means that the server's parent is its only owner.
// If another server uses the file, Open returns an error of kind Unavailable.
func Open(folder string) (*Owners, error) {
	path := filepath.Join(folder, File)
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		return nil, nil //nolint:nilnil // there is no file of owners
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "private %s: %w", folder, err)
	}
	o := &Owners{file: file}
	if !o.lock(server, 1) {
		_ = file.Close()
		return nil, fault.New(fault.Unavailable, "private %s: another server serves its owners", folder)
	}
	return o, nil
}

// Gone reports whether all owners have ended. After it returns true, no process can become an owner
// until this server has ended.
func (o *Owners) Gone() bool {
	if !o.lock(door, 1) {
		return false
	}
	if o.free(first, count) {
		return true
	}
	o.unlock(door)
	return false
}

// free reports whether no other process has locked one of these bytes. It locks nothing: an owner that
// leaves would take a lock of the server for that of another owner.
func (o *Owners) free(start, bytes int64) bool {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: 0, Start: start, Len: bytes}
	err := syscall.FcntlFlock(o.file.Fd(), syscall.F_GETLK, &lock)
	return err == nil && lock.Type == syscall.F_UNLCK
}

// lock locks bytes of the file, unless another process has locked one of them.
func (o *Owners) lock(start, bytes int64) bool { return o.set(syscall.F_WRLCK, start, bytes) == nil }

// unlock releases the lock of a byte.
func (o *Owners) unlock(start int64) { _ = o.set(syscall.F_UNLCK, start, 1) }

func (o *Owners) set(kind int16, start, bytes int64) error {
	lock := syscall.Flock_t{Type: kind, Whence: 0, Start: start, Len: bytes}
	return syscall.FcntlFlock(o.file.Fd(), syscall.F_SETLK, &lock)
}
