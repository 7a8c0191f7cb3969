package main

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

// aliveWithin is how long a socket that is there may take to answer.
const aliveWithin = 2 * time.Second

// listenSocket binds a socket of the file system that only this user's
// programs may use. One that a server left behind is replaced; one that a
// program answers on is not. Nobody else may bind in the folder meanwhile, so
// that of two servers that start at once only one gets the socket.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	address := config.SocketScheme + path
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, unbound(address, err)
	}
	defer unlock()
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	bound, err := bindSocket(ctx, path)
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
	s := &socket{UnixListener: own, path: path, is: is}
	s.end = sync.OnceValue(s.remove)
	return s, nil
}

// clearSocket removes a socket that nobody answers on.
func clearSocket(ctx context.Context, path string) error {
	address := config.SocketScheme + path
	switch found, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return unbound(address, err)
	case found.Mode().Type() != os.ModeSocket:
		return fault.New(fault.Invalid, "listen %s: there is something else by that name, and it is no socket", address).
			WithRemedy("choose a path where nothing is yet")
	}
	conn, err := (&net.Dialer{Timeout: aliveWithin}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // it was opened to see whether it can be
		return fault.New(fault.Unavailable, "listen %s: another program answers on that socket", address).
			WithRemedy("end the other program, or choose another path")
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

func unbound(address string, err error) *fault.Error {
	kind := fault.Unavailable
	if errors.Is(err, os.ErrPermission) {
		kind = fault.Forbidden
	}
	return fault.New(kind, "listen %s: %w", address, err).WithRemedy("choose a path in a folder that exists and that this user may write to")
}

// socket is a listener whose file goes with it.
type socket struct {
	*net.UnixListener
	path string
	is   os.FileInfo
	end  func() error
}

// Close stops listening and removes the file. It may be called more than once.
func (s *socket) Close() error { return s.end() }

func (s *socket) remove() error {
	// What another server put in its place is that server's.
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(s.is, now) {
		_ = os.Remove(s.path) // if it stays, the next server removes it
	}
	return s.UnixListener.Close()
}

// Addr implements net.Listener.
func (s *socket) Addr() net.Addr { return socketAddress(s.path) }

// socketAddress is a path as a server's address.
type socketAddress string

// Network implements net.Addr.
func (socketAddress) Network() string { return "unix" }

// String implements net.Addr.
func (a socketAddress) String() string { return config.SocketScheme + string(a) }
