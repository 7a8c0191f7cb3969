package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
)

func TestTargetOfURI(t *testing.T) {
	for uri, want := range map[string]string{
		"host:1": "host:1", "grpc://host:1": "host:1", "grpc+tcp://[::1]:1": "[::1]:1", "grpc+unix:///run/p": "unix:///run/p",
		"grpc+tls://host:1": "host:1",
	} {
		got, encrypted, err := targetOf(uri)
		require.NoError(t, err)
		require.Equal(t, want, got, uri)
		require.Equal(t, strings.HasPrefix(uri, "grpc+tls:"), encrypted, uri)
	}
	for _, uri := range []string{"", "grpc://", "::1", "http://host", "u@host", "host:1:2", "grpc+unix://run"} {
		_, _, err := targetOf(uri)
		require.Equal(t, fault.Invalid, fault.KindOf(err), uri)
	}
}

// An error says what a URI has and lacks, and what to write.
func TestURIWithoutAPort(t *testing.T) {
	const another = ", if the server listens on its default port"
	for uri, want := range map[string][2]string{
		"127.0.0.1":          {`"127.0.0.1" has the scheme grpc, and its address has the host 127.0.0.1 and no port`, "write grpc://127.0.0.1:8815" + another},
		"grpc+tls://train01": {`"grpc+tls://train01" has the scheme grpc+tls, and its address has the host train01 and no port`, "write grpc+tls://train01:8815" + another},
		"[::1]":              {`"[::1]" has the scheme grpc, and its address has the host ::1 and no port`, "write grpc://[::1]:8815" + another},
		"::1":                {`"::1" has the scheme grpc, and its address is an IPv6 address without brackets, and has no port`, "write grpc://[::1]:8815" + another},
		"8815":               {`"8815" has the scheme grpc, and its address has a port and no host`, "write grpc://127.0.0.1:8815" + another},
		"":                   {`"" names no host`, "write grpc://127.0.0.1:8815 for a server on this machine"},
		"grpc://":            {`"grpc://" names no host`, "write grpc://127.0.0.1:8815 for a server on this machine"},
		":8815":              {`":8815" names no host`, "write grpc://127.0.0.1:8815 for a server on this machine"},
		"http://host:1":      {`"http://host:1" has the scheme http, and not one of grpc, grpc+tcp, grpc+tls, grpc+unix`, "write grpc://host:1"},
		"http://host":        {`"http://host" has the scheme http, and not one of grpc, grpc+tcp, grpc+tls, grpc+unix`, "write grpc://host:8815" + another},
		"http://host:1/a":    {`"http://host:1/a" has the scheme http, and not one of grpc, grpc+tcp, grpc+tls, grpc+unix`, "write grpc://127.0.0.1:8815 for"},
		"unix:///run/p":      {`"unix:///run/p" has the scheme of a socket, without grpc+`, "write grpc+unix:///run/p"},
	} {
		_, _, err := targetOf(uri)
		e := fault.As(err)
		require.Equal(t, fault.Invalid, e.Kind, uri)
		require.Contains(t, e.Error(), want[0])
		require.Contains(t, e.Remedy, want[1], uri)
	}
	_, _, err := targetOf("http://user:hunter2@host")
	require.NotContains(t, err.Error(), "hunter2")
}

// A server that is stopped accepts connections, since its kernel does.
func TestServersThatDoNotAnswer(t *testing.T) {
	c := &Client{name: "grpc://127.0.0.1:8815"}
	for text, want := range map[string]string{
		`connection error: desc = "error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:8815: use of closed network connection"`: "the server accepts connections, and does not answer: error reading server preface: read tcp",
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:8815: connect: connection refused"`:                 "no server answers: dial tcp 127.0.0.1:8815: connect: connection refused",
	} {
		require.ErrorContains(t, c.fault(t.Context(), status.Error(codes.Unavailable, text), nil), want)
	}
}

// gRPC's own text for a message above a limit names no setting.
func TestOversizedMessagesHaveARemedy(t *testing.T) {
	e := fault.As((&Client{}).fault(t.Context(), status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), nil))
	require.Equal(t, fault.Exhausted, e.Kind)
	require.Equal(t, "grpc: received message larger than max (5 vs. 4)", e.Message)
	require.Contains(t, e.Remedy, "max_batch_bytes")
	require.Contains(t, e.Remedy, "--batch-rows")
	require.Empty(t, fault.As((&Client{}).fault(t.Context(), status.Error(codes.ResourceExhausted, "too many"), nil)).Remedy)
}

// An error about the certificate of the server names what helps: to renew one that has expired, or to trust its CA.
func TestErrorsSayWhatACertificateLacks(t *testing.T) {
	for said, remedy := range map[string]string{
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time …": "renew it, which needs no restart; or correct the clock",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":                     "name the CA of its certificate with --tls-ca",
		"remote error: tls: expired certificate":                                                               "renew the certificate of --tls-cert",
		"remote error: tls: certificate required":                                                              "give one with --tls-cert and --tls-key",
	} {
		e := fault.New(fault.Unavailable, "connect to h:1")
		require.True(t, (&Client{target: "h:1"}).explainHandshake(e, said), said)
		require.Contains(t, e.Remedy, remedy, said)
		require.Contains(t, e.Message, said)
	}
}
