package cmdline_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// A shell reads quoted words as they were.
//
// spec: history-14
func TestQuotedWordsAreThoseOfShells(t *testing.T) {
	for word, quoted := range map[string]string{
		"features.history": "features.history", "--uri": "--uri", "grpc://127.0.0.1:8815": "grpc://127.0.0.1:8815", "day=2026-11-01": "day=2026-11-01",
		"": "''", "my table": "'my table'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "a;b\n": "'a;b\n'", "*": "'*'", "~": "'~'", "größe": "'größe'",
	} {
		require.Equal(t, quoted, cmdline.Quote(word))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+cmdline.Quote(word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
	require.Equal(t, "penstock log 'ml.my table' --limit 3", cmdline.Join("penstock", "log", "ml.my table", "--limit", "3"))
}
