// Package socket listens on Unix domain sockets that only processes of this user can connect to.
//
// If two servers start at the same time with the same path, only one of them gets the socket. A new
// server replaces a socket on which no server listens any more. Any other file at the path stays.
// When a server closes its socket, it also leaves a file that another program has put at the path
// in the meantime.
package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// dialTimeout limits the time to check whether a server listens on an existing socket.
const dialTimeout = 2 * time.Second

// sendBuffer is the size of the send buffer of a connection, in bytes. If a process waits because
// the send buffer of its Unix socket is full, Linux wakes the process only when three quarters of
// the buffer have been read. With the system's default of about 200 KB, the server and a fast
// client would take turns waiting for each other. TCP avoids this by growing its buffers. Linux
// limits sendBuffer to net.core.wmem_max, and then doubles it. A client that does not read
// therefore occupies up to this much memory of the kernel, about as much as with TCP.
const sendBuffer = 1 << 20

// The networks of Listen, as in package net.
const (
	Streams = "unix"
	Packets = "unixpacket"
)

// Listen binds a socket of mode 0600 at path, and returns its listener. Closing the listener
// removes the socket. Listen locks the folder of path while it binds, so that two servers do not
// bind in the folder at the same time.
func Listen(ctx context.Context, network, path string) (net.Listener, error) {
	address := config.SocketScheme + path
	lock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, unbound(address, err)
	}
	defer lock.Release()
	if err := removeStale(ctx, network, path); err != nil {
		return nil, err
	}
	bound, err := bind(ctx, network, path)
	if err != nil {
		return nil, unbound(address, err)
	}
	own, ok := bound.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fault.New(fault.Internal, "listen %s: a listener of type %T", address, bound), bound.Close())
	}
	own.SetUnlinkOnClose(false)
	is, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(unbound(address, err), own.Close())
	}
	s := &listener{UnixListener: own, path: path, is: is}
	s.close = sync.OnceValue(s.remove)
	return s, nil
}

// removeStale removes the socket at path if no server listens on it. It returns an error if a
// server listens on the socket, or if the file at path is not a socket.
func removeStale(ctx context.Context, network, path string) error {
	address := config.SocketScheme + path
	switch found, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return unbound(address, err)
	case found.Mode().Type() != os.ModeSocket:
		return fault.New(fault.Invalid, "listen %s: a file that is not a socket has that name", address).
			WithRemedy("choose a path where no file exists")
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, path)
	switch {
	case err == nil:
		_ = conn.Close() // the connection was only a check
		return fault.New(fault.Unavailable, "listen %s: another program listens on that socket", address).
			WithRemedy("stop the other program, or choose another path")
	case errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return unbound(address, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unbound(address, err)
	}
	return nil
}

// unbound returns the error for an address that cannot be bound.
func unbound(address string, err error) *fault.Error {
	kind := fault.Unavailable
	if errors.Is(err, os.ErrPermission) {
		kind = fault.Forbidden
	}
	return fault.New(kind, "listen %s: %w", address, err).WithRemedy("choose a path in a folder that exists and that this user may write to")
}

// listener removes its socket from the file system when it is closed.
type listener struct {
	*net.UnixListener
	path  string
	is    os.FileInfo
	close func() error
}

// Accept implements net.Listener.
func (s *listener) Accept() (net.Conn, error) {
	c, err := s.AcceptUnix()
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteBuffer(sendBuffer) // with the default, batches are sent more slowly
	return c, nil
}

// Close stops listening and removes the socket. It may be called more than once.
func (s *listener) Close() error { return s.close() }

func (s *listener) remove() error {
	// The socket is removed only if it is still this listener's socket: another server may have
	// replaced it.
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(s.is, now) {
		_ = os.Remove(s.path) // if this fails, the next server removes the socket
	}
	return s.UnixListener.Close()
}

// Addr implements net.Listener.
func (s *listener) Addr() net.Addr { return address(s.path) }

// address is the path of a socket as a net.Addr.
type address string

// Network implements net.Addr.
func (address) Network() string { return "unix" }

// String implements net.Addr.
func (a address) String() string { return config.SocketScheme + string(a) }

// PrivateFolder creates a folder of mode 0700 at path. The folder's parent must exist. If there is
// already a folder at path, PrivateFolder checks that the folder belongs to this user, and that no
// other user can enter it.
func PrivateFolder(path string) error {
	switch err := os.Mkdir(path, 0o700); {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrExist):
		return fault.New(fault.Unavailable, "create folder %s: %w", path, err).
			WithRemedy("choose a path in a folder that exists and that this user may write to")
	}
	is, err := os.Stat(path)
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "folder %s: %w", path, err).WithRemedy("choose a path in a folder that exists")
	case !is.IsDir():
		return fault.New(fault.Invalid, "%s is not a folder", path).WithRemedy("choose a path in a folder")
	case is.Mode().Perm()&0o077 != 0 || !isOwn(is):
		return fault.New(fault.Invalid, "folder %s is not private: it has mode %04o", path, is.Mode().Perm()).
			WithRemedy("choose a path in a folder that does not exist yet, or in one that is this user's and has mode 0700")
	}
	return nil
}
