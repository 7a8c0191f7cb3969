package inbound

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout sets how long sent bytes may stay unacknowledged before the system ends a TCP connection. gRPC sets it only for
// connections of the standard library's own type. Failures leave the keepalive of gRPC, which takes pingAfter longer.
func setUserTimeout(conn net.Conn, timeout time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())) // see above
		})
	}
}
