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
