//go:build linux || darwin

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/owners"
)

// lateEnd is the time after which a test ends a server that should have ended on its own.
const lateEnd = 20 * time.Second

// privateFolder returns a folder for a private server. Its path is short enough for a socket.
func privateFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "p") //nolint:usetesting // whose folders have long names
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// startPrivately starts a private server, and returns the owner's end of its standard input.
func startPrivately(t *testing.T, folder string, args ...string) (*child, io.Closer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{command: exec.Command(self, append([]string{"serve", "--private", folder}, args...)...)} //nolint:noctx // ends with its input
	c.command.Env = append(os.Environ(), asMain+"=1")
	input, err := c.command.StdinPipe()
	require.NoError(t, err)
	c.begin(t)
	return c, input
}

// A private server ignores settings that would open it to others or that conflict with another
// server of the same config file. When its owner closes the pipe, it ends and removes its folder.
//
// spec: private-1, private-2, private-4, private-5
func TestPrivateServerEndsWithTheInputOfItsOwner(t *testing.T) {
	l, folder := readLake(t), privateFolder(t)
	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	config := l.file(t, "private.yaml", string(text)+
		"server: {listen: '127.0.0.1:1', tls_cert: none.pem, tls_key: none.key, tokens: none, metrics: '127.0.0.1:1', health: '127.0.0.1:1', pprof: true, cache_dir: none/none, advertise: ['grpc://elsewhere:1'],\n"+
		"  policy: none, audit_log: none/none, ticket_keys: none, jwt_issuer: 'https://none.example.com', jwt_audience: none, jwt_keys: none}\n")
	server, owner := startPrivately(t, folder, "--config", config)
	require.Equal(t, "unix://"+filepath.Join(folder, "server.sock"), server.address)
	require.Equal(t, run(t, "cat", "home", "--config", l.config), run(t, "cat", "home", "--uri", "grpc+"+server.address))
	require.NoError(t, owner.Close())
	late := time.AfterFunc(lateEnd, func() { _ = server.command.Process.Kill() })
	code, _ := server.wait(t)
	late.Stop()
	require.Zero(t, code, server.stderr)
	require.NoDirExists(t, folder)
}

// A signal ends a private server like any other. The folder stays until the owner, which may need
// the log, removes it.
//
// spec: private-4
func TestPrivateServerLeavesItsFolderToItsOwner(t *testing.T) {
	folder := privateFolder(t)
	server, _ := startPrivately(t, folder, "--config", readLake(t).config)
	server.signal(t)
	code, _ := server.wait(t)
	require.Zero(t, code, server.stderr)
	require.DirExists(t, folder)
}

// A private server ends with its parent process even if the pipe stays open. Here the parent is a
// shell that is killed while this process holds the pipe.
//
// spec: private-2
func TestPrivateServerEndsWithItsParent(t *testing.T) {
	l, folder := readLake(t), privateFolder(t)
	self, err := os.Executable()
	require.NoError(t, err)
	shell := exec.Command("sh", "-c", `"$0" "$@" <&3 & read line <&3`, self, "serve", "--private", folder, "--config", l.config) //nolint:noctx // killed below
	shell.Env = append(os.Environ(), asMain+"=1")
	held, input, err := os.Pipe()
	require.NoError(t, err)
	defer input.Close() //nolint:errcheck // it may be closed already
	shell.Stdin, shell.ExtraFiles = held, []*os.File{held}
	c := &child{command: shell}
	c.begin(t)
	require.NoError(t, held.Close())
	require.NoError(t, shell.Process.Kill())
	late := time.AfterFunc(lateEnd, func() { _ = input.Close() }) // this also ends the server
	_, _ = c.wait(t)                                              // until the server has closed the output
	require.True(t, late.Stop(), "the server outlived its parent")
	require.NoDirExists(t, folder)
}

// setLock locks or unlocks a byte of a file of owners, as the Python client does.
func setLock(file *os.File, kind int16, start int64) error {
	return syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Whence: 0, Start: start, Len: 1})
}

// A server whose folder has a file of owners ends when no owner holds a lock in the file. The end
// of its input does not matter.
//
// spec: private-30
func TestSharedServerEndsWithItsOwners(t *testing.T) {
	l, folder := readLake(t), privateFolder(t)
	held, err := os.OpenFile(filepath.Join(folder, owners.File), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer held.Close() //nolint:errcheck // nothing was written
	require.NoError(t, setLock(held, syscall.F_WRLCK, 8))
	server, input := startPrivately(t, folder, "--config", l.config)
	require.NoError(t, input.Close())
	uri := "grpc+unix://" + filepath.Join(folder, "server.sock")
	require.Equal(t, run(t, "cat", "home", "--config", l.config), run(t, "cat", "home", "--uri", uri))
	require.Error(t, setLock(held, syscall.F_WRLCK, 1<<30), "the server holds its byte")
	require.NoError(t, setLock(held, syscall.F_UNLCK, 8))
	late := time.AfterFunc(lateEnd, func() { _ = server.command.Process.Kill() })
	code, _ := server.wait(t)
	late.Stop()
	require.Zero(t, code, server.stderr)
	require.NoDirExists(t, folder)
}

// A folder that has unrelated files, or that other users may enter, is refused and left unchanged.
//
// spec: private-1
func TestPrivateFoldersMustBeNew(t *testing.T) {
	l := readLake(t)
	full, open := privateFolder(t), privateFolder(t)
	kept := filepath.Join(full, "kept")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.NoError(t, os.Chmod(open, 0o755)) //nolint:gosec // that is refused
	for folder, says := range map[string]string{
		full:                        "it has kept, and would be removed with it",
		open:                        "it is not a folder that only this user can enter",
		kept:                        "it is not a folder that only this user can enter",
		filepath.Join(full, "none"): "no such file",
	} {
		got := run(t, "serve", "--private", folder, "--config", l.config)
		require.Equal(t, exitFailure, got.code, got.stderr)
		require.Contains(t, got.stderr, says)
		require.Contains(t, got.stderr, "mktemp -d")
	}
	require.FileExists(t, kept)
	for _, flag := range []string{"--listen=127.0.0.1:0", "--local-socket=/tmp/local.sock"} {
		got := run(t, "serve", "--private", privateFolder(t), "--config", l.config, flag)
		require.Equal(t, exitUsage, got.code, got.stderr)
		name, _, _ := strings.Cut(flag, "=")
		require.Contains(t, got.stderr, "leave out "+name)
	}
}
