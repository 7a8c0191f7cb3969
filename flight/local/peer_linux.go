package local

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerUser returns the effective user id of the process that connected (SO_PEERCRED in socket(7)).
func peerUser(conn *net.UnixConn) (user int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var of *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		of, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("the user of its client: %w", err)
	}
	return int(of.Uid), nil
}
