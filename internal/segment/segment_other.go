//go:build !linux

package segment

import (
	"errors"
	"net"
	"os"
)

var errLinux = errors.New("memory can be passed to other processes only on Linux")

// Owned is memory that other processes can map.
type Owned struct{}

// New fails on this system.
func New(int) (*Owned, error) { return nil, errLinux }

// NewWritable fails on this system.
func NewWritable(int) (*Owned, error) { return nil, errLinux }

// Memory returns nothing.
func (*Owned) Memory() []byte { return nil }

// Send fails on this system.
func (*Owned) Send(*net.UnixConn, []byte) error { return errLinux }

// Close does nothing.
func (*Owned) Close() error { return nil }

// Receive fails on this system.
func Receive(*net.UnixConn, []byte) (int, []*os.File, error) { return 0, nil, errLinux }

// ReadSealed fails on this system.
func ReadSealed(*os.File, int64) ([]byte, error) { return nil, errLinux }
