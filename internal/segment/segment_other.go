//go:build !linux

package segment

import (
	"errors"
	"net"
)

var errLinux = errors.New("memory can be passed to other processes only on Linux")

// Owned is memory that other processes can map.
type Owned struct{}

// New fails on this system.
func New(int) (*Owned, error) { return nil, errLinux }

// Memory returns nothing.
func (*Owned) Memory() []byte { return nil }

// Send fails on this system.
func (*Owned) Send(*net.UnixConn, []byte) error { return errLinux }

// Close does nothing.
func (*Owned) Close() error { return nil }

// Received is the memory of another process's segment.
type Received struct{}

// Receive fails on this system.
func Receive(*net.UnixConn, []byte) (int, *Received, error) { return 0, nil, errLinux }

// Memory returns nothing.
func (*Received) Memory() []byte { return nil }

// Close does nothing.
func (*Received) Close() error { return nil }
