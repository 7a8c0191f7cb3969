package client

import (
	"context"
	"net"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/internal/fault"
)

// versioned is a server of a version that refuses every query with details of a kind, and whose answers to actions cannot be
// read.
type versioned struct {
	arrowflight.BaseFlightServer
	version, kind, remedy string
}

func (s *versioned) header() metadata.MD { return metadata.Pairs(flight.VersionKey, s.version) }

func (s *versioned) refuse() (metadata.MD, error) {
	details := `{"kind": "` + s.kind + `", "message": "unknown field", "remedy": "` + s.remedy + `"}`
	return metadata.Pairs(failure.TrailerKey, details), status.Error(codes.InvalidArgument, "unknown field")
}

// GetFlightInfo implements arrowflight.FlightServer.
func (s *versioned) GetFlightInfo(ctx context.Context, _ *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	trailer, err := s.refuse()
	_ = grpc.SetHeader(ctx, s.header())
	_ = grpc.SetTrailer(ctx, trailer)
	return nil, err
}

// DoAction implements arrowflight.FlightServer.
func (s *versioned) DoAction(asked *arrowflight.Action, answers arrowflight.FlightService_DoActionServer) error {
	_ = answers.SetHeader(s.header())
	if asked.GetType() == "cache_ls" {
		return answers.Send(&arrowflight.Result{Body: []byte("{")})
	}
	trailer, err := s.refuse()
	answers.SetTrailer(trailer)
	return err
}

// TestFailuresNameBothVersionsIfTheyDiffer checks the remedies of failures that another version of the server may explain.
//
// spec: private-28
func TestFailuresNameBothVersionsIfTheyDiffer(t *testing.T) {
	t.Parallel()
	const both = "the server is penstock 9.9.9+abc and this program is 0.1.0+def: install the same version of both"
	for name, c := range map[string]struct {
		server *versioned
		own    string
		// The remedies of a refusal and of an answer that cannot be read.
		refused, unreadable string
	}{
		"another version":      {&versioned{version: "9.9.9+abc", kind: "invalid"}, "0.1.0+def", both, both},
		"a remedy":             {&versioned{version: "9.9.9+abc", kind: "not found", remedy: "write it otherwise"}, "0.1.0+def", "write it otherwise; " + both, both},
		"another commit":       {&versioned{version: "9.9.9+abc", kind: "invalid"}, "9.9.9+def", "", ""},
		"a refusal of rights":  {&versioned{version: "9.9.9+abc", kind: "forbidden"}, "0.1.0+def", "", both},
		"a client without one": {&versioned{version: "9.9.9+abc", kind: "invalid"}, "", "", ""},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err, name)
		server := grpc.NewServer()
		arrowflight.RegisterFlightServiceServer(server, c.server)
		go server.Serve(listener) //nolint:errcheck // it ends with the test
		t.Cleanup(server.Stop)
		one := func() *Client {
			client, err := Dial("grpc://"+listener.Addr().String(), Security{}, c.own)
			require.NoError(t, err, name)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			return client
		}
		_, _, err = one().Plan(t.Context(), []byte("{}"))
		require.Equal(t, c.refused, fault.As(err).Remedy, name)
		_, err = one().Explain(t.Context(), []byte("{}"), false)
		require.Equal(t, c.refused, fault.As(err).Remedy, name)
		_, err = one().CacheList(t.Context())
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
		require.Equal(t, c.unreadable, fault.As(err).Remedy, name)
	}
}
