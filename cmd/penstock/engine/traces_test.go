package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
