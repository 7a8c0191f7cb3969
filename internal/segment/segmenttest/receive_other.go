//go:build !linux

package segmenttest

import (
	"errors"
	"net"
)

var errLinux = errors.New("memory can be passed to other processes only on Linux")

// Received is the memory of another process's segment.
type Received struct{}

// Receive fails on this system.
func Receive(*net.UnixConn, []byte) (int, *Received, error) { return 0, nil, errLinux }

// Memory returns nothing.
func (*Received) Memory() []byte { return nil }

// Close does nothing.
func (*Received) Close() error { return nil }

// ReceiveWritable fails on this system.
func ReceiveWritable(*net.UnixConn, []byte) (int, *Received, error) { return 0, nil, errLinux }

// SendSealed fails on this system.
func SendSealed(*net.UnixConn, []byte, []byte) error { return errLinux }
