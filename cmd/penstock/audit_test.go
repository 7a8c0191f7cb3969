package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
)

// audited parses the lines of an audit log. A server writes the line of a call before the client
// sees the end of the call.
func audited(t *testing.T, text string) (out []audit.Line) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one audit.Line
		if json.Unmarshal([]byte(line), &one) == nil && one.Event != "" {
			out = append(out, one)
		}
	}
	return out
}

// spec: access-21, access-22
func TestAuditLogHasStreamsAndRefusals(t *testing.T) {
	folder := t.TempDir()
	file, path := filepath.Join(folder, "server.tokens"), filepath.Join(folder, "audit.log")
	trainers := issued(t, file, "trainers")
	server := start(t, "--config", readLake(t).config, "--tokens", file, "--audit-log", path)
	got := run(t, "cat", "home", "--uri", server.uri(), "--token-file", trainers)
	require.Zero(t, got.code, got.stderr)
	require.NotZero(t, run(t, "cat", "home", "--uri", server.uri()).code)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := audited(t, string(text))
	require.Len(t, lines, strings.Count(string(text), "\n"), "each is JSON")
	require.Len(t, lines, 2)
	require.Equal(t, []any{audit.Stream, "DoGet", "trainers", "home", "ok", int64(7)},
		[]any{lines[0].Event, lines[0].Call, lines[0].Subject, lines[0].Dataset, lines[0].End, lines[0].Rows})
	require.Equal(t, "ml.impressions", lines[0].Tables[0].Table)
	require.NotZero(t, lines[0].Tables[0].Snapshot)
	require.Equal(t, []any{audit.Refusal, "", "unauthenticated"}, []any{lines[1].Event, lines[1].Subject, lines[1].End})
	secret, err := os.ReadFile(trainers)
	require.NoError(t, err)
	require.NotContains(t, string(text), strings.TrimSpace(string(secret)))
	stat, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())

	require.NoError(t, os.Chmod(path, 0o622))
	got = run(t, "serve", "--config", readLake(t).config, "--audit-log", path)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "other users may write "+path)
}

// spec: access-21
func TestAuditLogOnStandardError(t *testing.T) {
	server := start(t, "--config", readLake(t).config, "--audit-log", "stderr")
	got := run(t, "cat", "home", "--uri", server.uri())
	require.Zero(t, got.code, got.stderr)
	lines := audited(t, server.stderr.String())
	require.Len(t, lines, 1)
	require.Equal(t, []any{audit.Stream, "127.0.0.1"}, []any{lines[0].Event, lines[0].Host})
}
