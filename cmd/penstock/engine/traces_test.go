package engine

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// TestTraceHeaders checks which files of headers are accepted.
func TestTraceHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]map[string]string{
		"":                                {},
		"\n# c\n X-Key :  v: w \nb.c: \n": {"x-key": "v: w", "b.c": ""},
		"no value":                        nil,
		": v":                             nil,
		"a b: v":                          nil,
		"grpc-timeout: 1S":                nil,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := traceHeaders(path)
		if want == nil {
			require.ErrorContains(t, err, "trace_headers", text)
			require.NotContains(t, err.Error(), "no value")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, os.Chmod(path, 0o644)) //nolint:gosec // that is the test
	_, err := traceHeaders(path)
	require.ErrorContains(t, err, "chmod 600")
	got, err := traceHeaders("")
	require.NoError(t, err)
	require.Empty(t, got)
}

// The file of trace_ca has the CA of the collector's certificate, and is used with TLS alone.
func TestTraceCA(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	secured := config.Collector{Address: "collector:4317", TLS: true}
	pool, err := traceCA(config.Server{Trace: secured, TraceCA: path})
	require.NoError(t, err)
	_, err = server.Certificate().Verify(x509.VerifyOptions{Roots: pool, DNSName: "example.com"})
	require.NoError(t, err)
	pool, err = traceCA(config.Server{Trace: secured})
	require.NoError(t, err)
	require.Nil(t, pool)
	_, err = traceCA(config.Server{Trace: config.Collector{Address: "collector:4317"}, TraceCA: path})
	require.ErrorContains(t, err, "without TLS")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	_, err = traceCA(config.Server{Trace: secured, TraceCA: path})
	require.ErrorContains(t, err, "no certificate")
}
