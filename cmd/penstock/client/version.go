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

// versions holds the version of this program and the version of the server. The server sends its
// version in response headers.
type versions struct {
	own    string // the version of this program; "": unknown, so that versions are not compared
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
func (v *versions) unary(ctx context.Context, method string, asked, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error { //nolint:revive // gRPC's type prescribes these arguments
	var headers metadata.MD
	err := call(ctx, method, asked, answer, conn, append(options, grpc.Header(&headers))...)
	v.note(headers)
	return err
}

// stream records the server's version from the headers of a streaming call.
func (v *versions) stream(ctx context.Context, of *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) { //nolint:revive // gRPC's type prescribes these arguments
	answers, err := open(ctx, of, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return &notingStream{ClientStream: answers, versions: v}, nil
}

// notingStream is a stream that stores the server's version when the first message arrives.
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
		if headers, err := s.Header(); err == nil { // after the first message, headers have arrived or will never arrive
			s.versions.note(headers)
		}
	}
	return err
}

// compared returns e, and may change its remedy. If the server and this program have different
// versions, and this may explain the failure, compared adds both versions to the remedy. Different
// versions may explain that the server refused a query, or that its answer cannot be read. The
// commits in versions are not compared.
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
