//go:build unix

package main

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/outfile"
)

// csvOf returns the dataset home as CSV, as cat writes it to standard output.
func csvOf(t *testing.T, l lake) string {
	t.Helper()
	got := run(t, "cat", "home", "--config", l.config, "--format", "csv")
	require.Zero(t, got.code, got.stderr)
	return got.stdout
}

// catInto runs cat with --output.
func catInto(t *testing.T, l lake, path string) ran {
	t.Helper()
	return run(t, "cat", "home", "--config", l.config, "--format", "csv", "--output", path)
}

// onlyEntries fails the test unless the folder has exactly the named entries: no temporary file may
// be left.
func onlyEntries(t *testing.T, folder string, names ...string) {
	t.Helper()
	found, err := os.ReadDir(folder)
	require.NoError(t, err)
	var got []string
	for _, entry := range found {
		got = append(got, entry.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestCatWritesToStandardOutput(t *testing.T) {
	l := readLake(t)
	t.Chdir(t.TempDir())
	got := catInto(t, l, "-")
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, csvOf(t, l), got.stdout)
	onlyEntries(t, ".")
}

// spec: output-3
func TestCatRefusesFoldersSocketsAndFIFOs(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	got := catInto(t, l, dir)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "is a folder: name a file in it")
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket) //nolint:noctx // a socket in a folder of the test
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{socket, fifo} {
		got = catInto(t, l, path)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, path+" is not a regular file")
	}
	onlyEntries(t, dir, "s", "fifo")
}

// spec: output-4
func TestCatFollowsLinks(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	want := csvOf(t, l)
	for _, folder := range []string{"files", "links", "files/deep"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	at := func(path string) string { return filepath.Join(dir, path) }
	require.NoError(t, os.WriteFile(at("files/old.csv"), []byte("old"), 0o600))
	require.NoError(t, os.Symlink(at("files/deep"), at("links/folder")))
	for link, to := range map[string]string{
		"links/absolute": at("files/old.csv"),
		"links/relative": "../files/old.csv",
		"links/chain":    "../files/deep/../old.csv",
		"links/dangling": "../files/new.csv",
		"links/through":  "folder/../beside.csv", // the parent folder of files/deep, not of links/folder
	} {
		require.NoError(t, os.Symlink(to, at(link)))
		got := catInto(t, l, at(link))
		require.Zero(t, got.code, got.stderr)
		content, err := os.ReadFile(at(link))
		require.NoError(t, err, link)
		require.Equal(t, want, string(content), link)
		kept, err := os.Readlink(at(link))
		require.NoError(t, err)
		require.Equal(t, to, kept)
	}
	onlyEntries(t, at("files"), "old.csv", "new.csv", "beside.csv", "deep")
	onlyEntries(t, at("files/deep"))
	loop := at("links/loop")
	require.NoError(t, os.Symlink("loop", loop))
	got := catInto(t, l, loop)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, loop)
}

// spec: output-5
func TestCatKeepsOwnerAndMode(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(path, 0o660))
	owner := os.Getuid()
	if owner == 0 {
		owner = 4711
		require.NoError(t, os.Chown(path, owner, owner))
	}
	before, err := os.Stat(path)
	require.NoError(t, err)
	got := catInto(t, l, path)
	require.Zero(t, got.code, got.stderr)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o660), after.Mode())
	require.EqualValues(t, owner, after.Sys().(*syscall.Stat_t).Uid)
	require.False(t, os.SameFile(before, after), "it is replaced, not overwritten")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, csvOf(t, l), string(content))
	onlyEntries(t, dir, "rows.csv")
}

// A failed command leaves the old file unchanged, and leaves no temporary file.
//
// spec: output-1
func TestCatThatFailsKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	broken := errors.New("the disk is gone")
	err := outfile.Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	})
	require.ErrorIs(t, err, broken)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
	onlyEntries(t, dir, "rows.csv")
}

// catChild returns a command that runs cat in a separate process, after some shell commands.
func catChild(t *testing.T, before string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command("/bin/sh", append([]string{"-c", before + `; exec "$0" "$@"`, self, "cat"}, args...)...) //nolint:noctx // ended below
	c.Env = append(os.Environ(), asMain+"=1")
	return c
}

// A command whose reader has enough, such as "| head -1", succeeds.
//
// spec: output-14
func TestReadersThatHaveEnough(t *testing.T) {
	l := readLake(t)
	c := catChild(t, "true", "large", "--config", l.config, "--format", "csv", "--limit", "0")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	c.Stdout = write
	require.NoError(t, c.Start())
	require.NoError(t, write.Close())
	_, err = io.ReadFull(read, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, read.Close())
	require.NoError(t, c.Wait())
}

// SIGHUP ends a command, as Ctrl-C does, unless the command was started with SIGHUP ignored, as by
// nohup.
func TestCatEndsWithItsTerminal(t *testing.T) {
	// A child process inherits ignored signals, but not handled ones. Under nohup, this process
	// would ignore SIGHUP, so it handles the signal instead.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	t.Run("while it waits for a server", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on the loopback interface
		require.NoError(t, err)
		defer func() { require.NoError(t, silent.Close()) }()
		c := catChild(t, ":", "large", "--uri", "grpc://"+silent.Addr().String())
		require.NoError(t, c.Start())
		connection, err := silent.Accept()
		require.NoError(t, err)
		defer func() { require.NoError(t, connection.Close()) }()
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		_ = c.Wait()
		require.Equal(t, exitInterrupted, c.ProcessState.ExitCode())
	})
	t.Run("unless it ignores the signal", func(t *testing.T) {
		c := catChild(t, `trap "" HUP`, "large", "--config", readLake(t).config, "--format", "csv")
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		_, err = io.ReadFull(out, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		_, err = io.Copy(io.Discard, out)
		require.NoError(t, err)
		require.NoError(t, c.Wait())
	})
}

// spec: output-5
func TestCatCreatesFilesWithUmask(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	for umask, want := range map[string]fs.FileMode{"002": 0o664, "077": 0o600} {
		path := filepath.Join(dir, umask)
		out, err := catChild(t, "umask "+umask, "home", "--config", l.config, "--format", "csv", "--output", path).CombinedOutput()
		require.NoError(t, err, string(out))
		at, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, at.Mode(), umask)
	}
}

// The name of the output file may be as long as the system allows.
func TestCatWritesFilesWithLongNames(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	const longest = 255
	path := filepath.Join(dir, strings.Repeat("n", longest))
	got := catInto(t, l, path)
	require.Zero(t, got.code, got.stderr)
	onlyEntries(t, dir, filepath.Base(path))
}
