package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command health works with and without TLS and needs no token. It fails if no server answers.
func TestHealthOfServers(t *testing.T) {
	l := readLake(t)
	plain := start(t, "--config", l.config)
	require.Equal(t, ran{exitOK, "serving\n", ""}, run(t, "health", "--uri", plain.uri()))
	got := run(t, "health", "--uri", "grpc+tls://"+plain.address)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "does not answer")
	plain.signal(t)
	code, _ := plain.wait(t)
	require.Zero(t, code)
	require.Equal(t, exitFailure, run(t, "health", "--uri", plain.uri()).code)
	require.Equal(t, exitUsage, run(t, "health").code)

	folder := filepath.Join(t.TempDir(), "certificates")
	flags := certificates(t, folder)
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	require.Zero(t, run(t, "token", "new", "--subject", "a", "--tokens", tokens).code)
	protected := start(t, append(flags, "--config", l.config, "--tokens", tokens)...)
	require.Equal(t, "serving\n", run(t, "health", "--uri", strings.Replace(protected.uri(), "grpc:", "grpc+tls:", 1)).stdout)
}
