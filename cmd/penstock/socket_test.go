package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// socketPath returns a path that is short enough for a socket on every system.
func socketPath(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "s") //nolint:usetesting // whose folders have long names
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return filepath.Join(folder, "a b.sock")
}

func TestServeOnASocket(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	server := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.Equal(t, "unix://"+path, server.address)
	is, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, is.Mode())
	require.Equal(t, run(t, "cat", "home", "--config", l.config), run(t, "cat", "home", "--uri", "grpc+"+server.address))

	got := run(t, "serve", "--config", l.config, "--listen", server.address)
	require.Equal(t, ran{exitFailure, "", "penstock: listen unix://" + path + ": another program listens on that socket\n" +
		"  → stop the other program, or choose another path\n"}, got)
	require.Zero(t, run(t, "datasets", "home", "--uri", "grpc+"+server.address).code, "the first server still serves on it")

	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A killed server leaves its socket behind. The next server replaces it.
func TestStaleSocketIsReplaced(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	killed := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.NoError(t, killed.command.Process.Kill())
	_, _ = killed.wait(t)
	_, err := os.Lstat(path)
	require.NoError(t, err)
	server := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.Zero(t, run(t, "datasets", "home", "--uri", "grpc+"+server.address).code)

	// The server does not remove a file that another program put at the path.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

func TestBadSocketPathsAreRefused(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	folder := filepath.Dir(path)
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	taken, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for address, says := range map[string]string{
		"unix://" + file:               "that is not a socket",
		"unix://" + folder:             "that is not a socket",
		"unix://" + path:               "another program listens",
		"unix://" + folder + "/none/s": "no such file",
		"unix://s":                     "not of the form unix:///path",
		"unix://":                      "not of the form unix:///path",
		"unix:///tmp/":                 "not of the form unix:///path",
		"unix://" + folder + "/" + strings.Repeat("n", 103): "too many for a socket",
	} {
		got := run(t, "serve", "--config", l.config, "--listen", address)
		require.Equal(t, exitFailure, got.code, address)
		require.Contains(t, got.stderr, says)
		require.Empty(t, got.stdout)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
	got := run(t, "serve", "--config", l.config, "--metrics", "unix://"+path)
	require.Contains(t, got.stderr, "is not of the form host:port")
	require.Contains(t, run(t, "datasets", "home", "--uri", "grpc+unix://s").stderr, "grpc+unix:///path")
}
