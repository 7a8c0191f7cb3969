//go:build linux || darwin

package socket

import (
	"context"
	"net"
	"os"
	"syscall"

	"github.com/penstock/penstock/internal/release"
)

// lockFolder locks a folder, so that no other server binds a socket in it until the lock is
// released.
func lockFolder(folder string) (*release.Handle, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return release.New(func() { _ = f.Close() }), nil // closing the folder releases the lock
}

// bind creates a socket of mode 0600. To do so, it changes the umask of the whole process, so no
// other goroutine may create files at the same time.
func bind(ctx context.Context, network, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, network, path)
}

// isOwn reports whether a file belongs to the user of this process.
func isOwn(is os.FileInfo) bool {
	of, ok := is.Sys().(*syscall.Stat_t)
	return ok && int(of.Uid) == os.Geteuid()
}
