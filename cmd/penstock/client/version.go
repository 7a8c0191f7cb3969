package client

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// versions holds the version of this program and that of the server, which the server sends in response headers.
type versions struct {
	own    string // "": unknown, and not compared
	server atomic.Pointer[string]
}

// options returns dial options that record the server's version.
func (v *versions) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(v.unary), grpc.WithChainStreamInterceptor(v.stream)}
}

// note stores the server's version if the headers contain it.
func (v *versions) note(headers metadata.MD) {
	if said := headers.Get(flight.VersionKey); len(said) > 0 {
		v.server.Store(&said[0])
	}
}

// unary records the server's version from the headers of a unary call.
func (v *versions) unary(ctx context.Context, method string, asked, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error { //nolint:revive // gRPC's type has these arguments
	var headers metadata.MD
	err := call(ctx, method, asked, answer, conn, append(options, grpc.Header(&headers))...)
	v.note(headers)
	return err
}

// stream records the server's version from the headers of a streaming call.
func (v *versions) stream(ctx context.Context, of *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) { //nolint:revive // gRPC's type has these arguments
	answers, err := open(ctx, of, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return &notingStream{ClientStream: answers, versions: v}, nil
}

// notingStream is a stream that records the server's version when the first message arrives.
type notingStream struct {
	grpc.ClientStream
	versions *versions
	noted    bool
}

// RecvMsg implements grpc.ClientStream.
func (s *notingStream) RecvMsg(answer any) error {
	err := s.ClientStream.RecvMsg(answer)
	if !s.noted {
		s.noted = true
		if headers, err := s.Header(); err == nil { // headers arrive before the first message, or never
			s.versions.note(headers)
		}
	}
	return err
}

// compared returns e. It adds the versions of the server and this program to the remedy if they
// differ and may explain the failure: the server refused a query, or its answer cannot be read.
// Commits in versions are ignored.
func (v *versions) compared(e *fault.Error) *fault.Error {
	server := v.server.Load()
	if server == nil || v.own == "" || number(*server) == number(v.own) {
		return e
	}
	switch e.Kind {
	case fault.Invalid, fault.NotFound, fault.Internal:
		both := "the server is penstock " + *server + " and this program is " + v.own + ": install the same version of both"
		if e.Remedy != "" {
			both = e.Remedy + "; " + both
		}
		return e.WithRemedy("%s", both)
	case fault.Unauthenticated, fault.Forbidden, fault.Expired, fault.Conflict, fault.Exhausted, fault.Corrupt, fault.Unavailable:
	}
	return e
}

// number returns a version without its commit: "0.1.0" for "0.1.0+e02146467bd4".
func number(version string) string {
	number, _, _ := strings.Cut(version, "+")
	return number
}
