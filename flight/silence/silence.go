// Package silence says when clients in Go count a server as lost that sends nothing.
//
// Each byte of a connection is a sign of life, so a slow network loses no connection. If a call is open and no byte has
// arrived for a while, the client sends a ping, and the server must answer it in time.
package silence

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// pingAfter is the time without a byte after which the server is pinged: the least that gRPC for Go permits. pingTimeout
// is the time that the server has for an answer.
const pingAfter, pingTimeout = 10 * time.Second, 2 * time.Second

const (
	// Limit is the time after the last byte of the server after which its calls fail.
	Limit = pingAfter + pingTimeout
	// ConnectLimit is the time that a connection may take: the system accepts it for a server that is suspended.
	ConnectLimit = 5 * time.Second
)

// DialOptions returns the options of a connection that is lost after Limit.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: ConnectLimit}),
	}
}
