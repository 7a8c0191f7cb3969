package flight

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
)

// Authenticate returns who sends a token, with a subject that is not empty, or an Unauthenticated fault. It must not block.
type Authenticate func(token string) (identity.Caller, error)

// authorization is the header with a client's token, and bearer what precedes it.
const (
	authorization = "authorization"
	bearer        = "bearer "
)

// tap is called with the headers of each call, before gRPC keeps anything of it. It must not block. The subject is known before
// the call counts, so that it counts against its subject.
func (s *Server) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	return s.arrivals.tap(s.authenticated(ctx, call), call)
}

// refusalKey is the key of a context's refusal: why the credentials of its call are not accepted.
type refusalKey struct{}

// authenticated returns the context of a call with its subject, or with its refusal, which refusal returns: only the answer of
// a handler has details. Checks of health need no credentials.
func (s *Server) authenticated(ctx context.Context, call *tap.Info) context.Context {
	if strings.HasPrefix(call.FullMethodName, "/grpc.") {
		return ctx
	}
	who, err := s.callerOf(call.Header)
	switch {
	case err != nil:
		return context.WithValue(ctx, refusalKey{}, err)
	case who.Subject != "":
		return identity.With(ctx, who)
	default:
		return ctx
	}
}

// refusal returns why the credentials of a call are not accepted; nil if they are.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// callerOf returns who sends a call's headers; the zero Caller if the server has no credentials.
func (s *Server) callerOf(headers metadata.MD) (identity.Caller, error) {
	sent := headers.Get(authorization)
	if s.options.Authenticate == nil {
		if len(sent) > 0 {
			return identity.Caller{}, fault.New(fault.Invalid, "the client sent credentials, and this server has none configured").
				WithRemedy("leave out the token, or set tokens or jwt_issuer on the server")
		}
		return identity.Caller{}, nil
	}
	if len(sent) != 1 {
		return identity.Caller{}, fault.New(fault.Unauthenticated, "the call has %s, and this server requires one", fault.Count(len(sent), "token")).
			WithRemedy(`send the header "authorization: Bearer TOKEN"; in Python, penstock.connect(…, token_file=…); for commands, --token-file`)
	}
	token := sent[0]
	if len(token) < len(bearer) || !strings.EqualFold(token[:len(bearer)], bearer) {
		return identity.Caller{}, fault.New(fault.Unauthenticated, "the credentials of the call are not a bearer token").
			WithRemedy(`send the header "authorization: Bearer TOKEN"`)
	}
	return s.options.Authenticate(token[len(bearer):])
}

// clientOf returns the client that a call counts against: its subject, or else its host. It is "" for Unix domain sockets
// without credentials, which have no share.
func clientOf(ctx context.Context) string {
	if subject, known := identity.Of(ctx); known {
		return "subject " + subject // no host has a space
	}
	return hostOf(ctx)
}

// callerAttributes returns what the log has of the caller.
func callerAttributes(ctx context.Context) []slog.Attr {
	out := []slog.Attr{slog.String("peer", peerOf(ctx))}
	if subject, known := identity.Of(ctx); known {
		out = append(out, slog.String("subject", subject))
	}
	return out
}
