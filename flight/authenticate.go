package flight

import (
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
)

// Authenticate returns the caller that a token belongs to, whose subject is not empty, or an
// Unauthenticated or Unavailable fault. It must not block.
type Authenticate func(token string) (identity.Caller, error)

// authorization is the header with a client's token, and bearer what precedes it.
const (
	authorization = "authorization"
	bearer        = "bearer "
)

// callerOf returns the caller that the credentials in a call's headers belong to. It returns the
// zero Caller if no credentials are configured on the server.
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
		return identity.Caller{}, fault.New(fault.Unauthenticated, "the call has %s, and this server requires one", tokensText(len(sent))).
			WithRemedy(`send the header "authorization: Bearer TOKEN"; in Python, penstock.connect(…, token_file=…); for commands, --token-file`)
	}
	token := sent[0]
	if len(token) < len(bearer) || !strings.EqualFold(token[:len(bearer)], bearer) {
		return identity.Caller{}, fault.New(fault.Unauthenticated, "the credentials of the call are not a bearer token").
			WithRemedy(`send the header "authorization: Bearer TOKEN"`)
	}
	return s.options.Authenticate(token[len(bearer):])
}

// tokensText describes the number of tokens of a call.
func tokensText(n int) string {
	if n == 0 {
		return "no token"
	}
	return fault.Count(n, "token")
}
