package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestTargetOfURI(t *testing.T) {
	for uri, want := range map[string]string{
		"host:1": "host:1", "grpc://host:1": "host:1", "grpc+tcp://[::1]:1": "[::1]:1", "grpc+unix:///run/p": "unix:///run/p",
		"grpc+tls://host:1": "host:1", "127.0.0.1": "127.0.0.1:8815", "grpc://host": "host:8815", "[::1]": "[::1]:8815",
	} {
		got, encrypted, err := target(uri)
		require.NoError(t, err)
		require.Equal(t, want, got, uri)
		require.Equal(t, strings.HasPrefix(uri, "grpc+tls:"), encrypted, uri)
	}
	for _, uri := range []string{"", "grpc://", "::1", "http://host", "u@host", "host:1:2", "grpc+unix://run"} {
		_, _, err := target(uri)
		require.Equal(t, fault.Invalid, fault.KindOf(err), uri)
	}
}
