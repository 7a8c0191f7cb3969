//go:build !linux

package inbound

import (
	"net"
	"time"
)

// setUserTimeout does nothing on systems without this setting: the keepalive of gRPC ends connections whose clients are gone.
func setUserTimeout(net.Conn, time.Duration) {}
