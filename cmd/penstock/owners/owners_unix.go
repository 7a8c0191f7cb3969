//go:build linux || darwin

package owners

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/penstock/penstock/internal/fault"
)

// The bytes of the file of owners. Each is locked by a process, with a record lock: forked processes do not have it, and the
// kernel releases it at any end of the process.
const (
	door   = 0       // held to become an owner, to start the server, and by the server once it ends
	first  = 1       // an owner has one of these
	count  = 1 << 20 // of them
	server = 1 << 30 // the server
)

// Owners are the processes that share a private server.
type Owners struct {
	file *os.File // open until the process ends: closing it, or another descriptor of it, releases the locks
}

// Open opens the file of owners in the folder of a private server, for the server. It returns nil if there is none: the
// server's parent is its only owner. It is Unavailable if another server has the file.
func Open(folder string) (*Owners, error) {
	path := filepath.Join(folder, File)
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		return nil, nil //nolint:nilnil // there are none
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

// Gone reports whether all owners have ended. After that, a process can become an owner only when this server has ended.
func (o *Owners) Gone() bool {
	if !o.lock(door, 1) {
		return false
	}
	if o.lock(first, count) {
		return true
	}
	o.unlock(door)
	return false
}

// lock locks bytes of the file, unless another process has locked one of them.
func (o *Owners) lock(start, bytes int64) bool { return o.set(syscall.F_WRLCK, start, bytes) == nil }

// unlock releases a byte.
func (o *Owners) unlock(start int64) { _ = o.set(syscall.F_UNLCK, start, 1) }

func (o *Owners) set(kind int16, start, bytes int64) error {
	lock := syscall.Flock_t{Type: kind, Whence: 0, Start: start, Len: bytes}
	return syscall.FcntlFlock(o.file.Fd(), syscall.F_SETLK, &lock)
}
