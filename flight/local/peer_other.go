//go:build !linux

package local

import (
	"errors"
	"net"
)

// peerUser fails on this system.
func peerUser(*net.UnixConn) (int, error) {
	return 0, errors.New("memory can be passed to other processes only on Linux")
}
