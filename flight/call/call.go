// Package call has the values of one call of a client, which are made at the door of a server: who calls, over which connection, its
// slot among the calls that plan or answer, and its line in the audit log. The packages that answer calls get them as arguments.
//
// It promises that a call has at most one slot at a time, that the calls that wait for one are bounded, in number and in the bytes of
// their requests, and that none waits without an end. No name in a line of the audit log is longer than MaxName.
package call

import (
	"context"
	"log/slog"
	"net"
	"strconv"

	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/internal/identity"
)

// Call is one call of a client, from its headers to its end. It belongs to the goroutine of the call.
type Call struct {
	Caller     identity.Caller // zero: the client sent no credentials, and needs none
	Refusal    error           // why the call's credentials are not accepted; nil: they are
	Peer       string          // address of the client
	Host       string          // of the client; "" for Unix domain sockets
	Connection *inbound.Connection
	Arrival    *inbound.Arrival
	Slot       *Slot
	Note       Note
}

// key is the key of a context's call.
type key struct{}

// With returns a context with a call, for gRPC to pass on to a handler.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the call of a context that gRPC passes to a handler; nil if there is none.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

// Client returns the client whose share the call uses: its subject, or else its host. It is "" for
// Unix domain sockets without credentials, which have no share.
func (c *Call) Client() string {
	if c.Caller.Subject != "" {
		return "subject " + c.Caller.Subject // no host has a space
	}
	return c.Host
}

// Attributes returns the log attributes of the caller.
func (c *Call) Attributes() []slog.Attr {
	out := []slog.Attr{slog.String("peer", c.Peer)}
	if c.Caller.Subject != "" {
		out = append(out, slog.String("subject", c.Caller.Subject))
	}
	return out
}

// Writer returns the client for the purpose of sharing write slots: a subject or a host. Programs
// on the server's machine have the same host, so each connection counts as a client.
func (c *Call) Writer() string {
	if ip := net.ParseIP(c.Host); c.Caller.Subject != "" || c.Host != "" && (ip == nil || !ip.IsLoopback()) {
		return c.Client()
	}
	return "connection " + strconv.FormatInt(c.Connection.Number(), 10)
}
