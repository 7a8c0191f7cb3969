//go:build linux || darwin

package main

import (
	"context"
	"net"
	"os"
	"syscall"
)

// lockFolder keeps other servers from binding in a folder until unlock.
func lockFolder(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	return func() { _ = f.Close() }, nil // which unlocks
}

// bindSocket makes a socket of mode 0600. It must not run beside anything else
// that makes files: the mask is the process's.
func bindSocket(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}
