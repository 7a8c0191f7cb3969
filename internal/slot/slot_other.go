//go:build !linux

package slot

import (
	"errors"
	"net"
)

var errLinux = errors.New("memory can be passed to other processes only on Linux")

// Slot is memory that other processes can map.
type Slot struct{}

// New fails on this system.
func New(int) (*Slot, error) { return nil, errLinux }

// Memory returns nothing.
func (*Slot) Memory() []byte { return nil }

// Send fails on this system.
func (*Slot) Send(*net.UnixConn, []byte) error { return errLinux }

// Close does nothing.
func (*Slot) Close() error { return nil }

// Received is the memory of another process's slot.
type Received struct{}

// Receive fails on this system.
func Receive(*net.UnixConn, []byte) (int, *Received, error) { return 0, nil, errLinux }

// Memory returns nothing.
func (*Received) Memory() []byte { return nil }

// Close does nothing.
func (*Received) Close() error { return nil }
