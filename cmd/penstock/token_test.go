package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/certtest"
	"github.com/penstock/penstock/internal/tokens"
)

// issued creates a token for a subject, adds its line to file, and returns the path of a new file
// with the token.
func issued(t *testing.T, file, subject string, flags ...string) string {
	t.Helper()
	got := run(t, append([]string{"token", "new", "--subject", subject, "--tokens", file}, flags...)...)
	require.Zero(t, got.code, got.stderr)
	path := filepath.Join(t.TempDir(), subject+".token")
	require.NoError(t, os.WriteFile(path, []byte(got.stdout), 0o600))
	return path
}

// spec: access-5, access-7, access-8
func TestCommandsReadWithTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.tokens")
	trainers := issued(t, file, "trainers")
	server := start(t, "--config", readLake(t).config, "--tokens", file)
	for _, command := range [][]string{{"cat", "home"}, {"explain", "home"}, {"datasets"}, {"cache", "ls"}, {"verify", "home"}} {
		got := run(t, append(command, "--uri", server.uri(), "--token-file", trainers)...)
		require.NotContains(t, got.stderr, "token", command)
		got = run(t, append(command, "--uri", server.uri())...)
		require.NotZero(t, got.code, command)
		require.Contains(t, got.stderr, "the call has no token, and this server requires one", command)
		require.Contains(t, got.stderr, "--token-file", command)
	}
	require.Equal(t, "trainers", server.stderr.find(t, "stream ends")["subject"])
	require.NotContains(t, server.stderr.String(), tokens.Prefix)
	healthy(t, server)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	sweeps := issued(t, file, "sweeps")
	server.reload(t)
	require.Eventually(t, func() bool {
		return run(t, "cat", "home", "--uri", server.uri(), "--token-file", sweeps).code == exitOK
	}, time.Minute, 50*time.Millisecond)
	require.Zero(t, run(t, "cat", "home", "--uri", server.uri(), "--token-file", trainers).code)
	require.NoError(t, os.WriteFile(file, append([]byte("#"), text...), 0o600))
	got := run(t, "cat", "home", "--uri", server.uri(), "--token-file", filepath.Join(t.TempDir(), "none"))
	require.Contains(t, got.stderr, "read the token")

	plain := start(t, "--config", readLake(t).config)
	got = run(t, "cat", "home", "--uri", plain.uri(), "--token-file", trainers)
	require.Contains(t, got.stderr, "the client sent credentials, and this server has none configured")
	got = run(t, "cat", "home", "--uri", "grpc://loader.example.com:1", "--token-file", trainers)
	require.Contains(t, got.stderr, "a token is not sent without TLS to another machine")
}

// The server refuses a revoked token after it has loaded the tokens file again. An invalid file
// changes nothing.
//
// spec: access-7
func TestRevokedTokenIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.tokens")
	trainers := issued(t, file, "trainers")
	server := start(t, "--config", readLake(t).config, "--tokens", file)
	ask := func() ran { return run(t, "datasets", "home", "--uri", server.uri(), "--token-file", trainers) }
	require.NoError(t, os.WriteFile(file, []byte("trainers\n"), 0o600))
	server.reload(t)
	server.stderr.find(t, "changed files cannot be used: the previous content stays in use")
	require.Zero(t, ask().code)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	server.reload(t)
	require.Eventually(t, func() bool { return strings.Contains(ask().stderr, "the token is unknown to the server") }, time.Minute, 50*time.Millisecond)
}

// TestSecureServerForOtherMachines checks that with TLS and tokens, an address that other machines
// can reach needs no --insecure, and that its metrics require a token.
//
// spec: access-3
func TestSecureServerForOtherMachines(t *testing.T) {
	l := newLake(t, t.TempDir())
	keys := l.file(t, "tickets.keys", "k1 "+strings.Repeat("QUJD", 16)+"\n")
	folder := t.TempDir()
	file := filepath.Join(folder, "server.tokens")
	token := issued(t, file, "trainers")
	server := start(t, append(certificates(t, folder), "--config", l.config, "--ticket-keys", keys, "--tokens", file,
		"--listen", "0.0.0.0:0", "--metrics", "0.0.0.0:0")...)
	metricsPort := server.metricsPort(t)
	require.NotContains(t, server.stderr.String(), "is insecure")
	_, port, err := net.SplitHostPort(server.address)
	require.NoError(t, err)
	got := run(t, "cat", "home", "--uri", "grpc+tls://localhost:"+port, "--tls-ca", filepath.Join(folder, certtest.CA), "--token-file", token)
	require.Zero(t, got.code, got.stderr)

	secret, err := os.ReadFile(token)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: overTLS(t, folder)}
	defer transport.CloseIdleConnections()
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer pst_other": http.StatusUnauthorized, "Basic " + strings.TrimSpace(string(secret)): http.StatusUnauthorized,
		"Bearer " + strings.TrimSpace(string(secret)): http.StatusOK,
	} {
		request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "https://localhost:"+metricsPort+"/metrics", http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", header)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		require.NoError(t, err)
		require.Equal(t, want, answer.StatusCode, header)
		require.NoError(t, answer.Body.Close())
	}
}

func TestTokenNewPrintsTheTokenOnce(t *testing.T) {
	got := run(t, "token", "new", "--subject", "trainers", "--expires", "24h")
	require.Zero(t, got.code)
	require.Regexp(t, `^pst_[A-Za-z0-9_-]{43}\n$`, got.stdout)
	require.Regexp(t, `\ntrainers sha256:[0-9a-f]{64} expires=2`, got.stderr)
	require.NotContains(t, got.stderr, tokens.Prefix)
	require.Equal(t, exitUsage, run(t, "token", "new").code)
	require.Equal(t, exitUsage, run(t, "token", "new", "--subject", "a", "--expires", "never").code)
	require.Equal(t, exitFailure, run(t, "token", "new", "--subject", "a b").code)
	require.Equal(t, exitFailure, run(t, "token", "new", "--subject", "a", "--tokens", t.TempDir()).code)

	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("# no line break"), 0o600))
	issued(t, file, "trainers")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, `^# no line break\ntrainers sha256:`, string(text))
	_, err = tokens.Parse(text)
	require.NoError(t, err)
}

func TestTokensThatOthersMayWriteAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.tokens")
	issued(t, file, "trainers")
	require.NoError(t, os.Chmod(file, 0o666))
	got := run(t, "serve", "--config", readLake(t).config, "--tokens", file)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "may write "+file)
	got = run(t, "serve", "--config", readLake(t).config, "--tokens", readLake(t).config)
	require.Contains(t, got.stderr, "read the tokens of")
}
