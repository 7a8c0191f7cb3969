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

func TestSocket(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	server := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.Equal(t, "unix://"+path, server.address)
	is, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, is.Mode())
	require.Equal(t, run(t, "cat", "home", "--config", l.config), run(t, "cat", "home", "--uri", "grpc+"+server.address))

	got := run(t, "serve", "--config", l.config, "--listen", server.address)
	require.Equal(t, ran{exitFailure, "", "penstock: listen unix://" + path + ": another program answers on that socket\n" +
		"  → end the other program, or choose another path\n"}, got)
	require.Zero(t, run(t, "datasets", "home", "--uri", "grpc+"+server.address).code, "the first server still has it")

	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A server that was killed leaves its socket; the next one takes it over.
func TestSocketOfTheDead(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	killed := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.NoError(t, killed.command.Process.Kill())
	_, _ = killed.wait(t)
	_, err := os.Lstat(path)
	require.NoError(t, err)
	server := start(t, "--config", l.config, "--listen", "unix://"+path)
	require.Zero(t, run(t, "datasets", "home", "--uri", "grpc+"+server.address).code)

	// What another program put there is left alone.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

func TestSocketsThatCannotBe(t *testing.T) {
	l, path := readLake(t), socketPath(t)
	folder := filepath.Dir(path)
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	taken, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for address, says := range map[string]string{
		"unix://" + file:               "it is no socket",
		"unix://" + folder:             "it is no socket",
		"unix://" + path:               "another program answers",
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
	require.Contains(t, got.stderr, "is not a number")
	require.Contains(t, run(t, "datasets", "home", "--uri", "grpc+unix://s").stderr, "grpc+unix:///path")
}
