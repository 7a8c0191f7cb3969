//go:build unix

package main

import (
	"context"
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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/outfile"
)

// csvOf returns ml.impressions as cat writes it to standard output.
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

// onlyEntries fails if a folder has other entries, such as a temporary file.
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

// spec: output-2
func TestCatWritesIntoFIFO(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	path := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	read := make(chan string, 1)
	go func() {
		content, err := os.ReadFile(path)
		if err != nil {
			content = []byte(err.Error())
		}
		read <- string(content)
	}()
	got := catInto(t, l, path)
	require.Zero(t, got.code, got.stderr)
	at, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, at.Mode().Type())
	require.Equal(t, csvOf(t, l), <-read)
	onlyEntries(t, dir, "pipe")
}

// spec: output-2
func TestCatEndsWhileFIFOWaits(t *testing.T) {
	l, path := readLake(t), filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	t.Run("for a reader to open it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- outfile.Write(ctx, path, func(io.Writer) error { return errors.New("written") })
		}()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		// A reader ends the pending open.
		reader, err := os.Open(path)
		require.NoError(t, err)
		require.NoError(t, reader.Close())
	})
	t.Run("for a reader to read", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reader, err := os.OpenFile(path, os.O_RDWR, 0) // which does not wait for a writer
		require.NoError(t, err)
		defer func() { require.NoError(t, reader.Close()) }()
		p := process{stdout: io.Discard, stderr: io.Discard, clock: time.Now}
		ended := make(chan int, 1)
		go func() {
			ended <- p.run(ctx, []string{"cat", "large", "--config", l.config, "--format", "csv", "--output", path})
		}()
		written := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(reader, make([]byte, 1))
			written <- err
		}()
		select {
		case err := <-written:
			require.NoError(t, err)
		case code := <-ended:
			require.Fail(t, "it has written nothing into the FIFO", "exit code %d", code)
		}
		cancel()
		require.Equal(t, exitInterrupted, <-ended)
	})
}

// spec: output-3
func TestCatRefusesFoldersAndSockets(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	got := catInto(t, l, dir)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "is a folder: name a file in it")
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket) //nolint:noctx // a socket in a folder of the test
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	got = catInto(t, l, socket)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "is a socket")
	onlyEntries(t, dir, "s")
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
		"links/through":  "folder/../beside.csv", // the parent of files/deep, not of links
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

// A command that fails leaves the old file unchanged, and no temporary file.
//
// spec: output-1
func TestCatThatFailsKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	broken := errors.New("the disk is gone")
	err := outfile.Write(t.Context(), path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	})
	require.ErrorIs(t, err, broken)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
	onlyEntries(t, dir, "rows.csv")
}

// catChild returns a command that runs cat as its own process, after some shell commands.
func catChild(t *testing.T, before string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command("/bin/sh", append([]string{"-c", before + `; exec "$0" "$@"`, self, "cat"}, args...)...) //nolint:noctx // ended below
	c.Env = append(os.Environ(), asMain+"=1")
	return c
}

// SIGHUP, like Ctrl-C, ends a command and removes its temporary file, unless the command was
// started to ignore it, as by nohup.
//
// spec: output-1
func TestCatEndsWithItsTerminal(t *testing.T) {
	l := readLake(t)
	// A child ignores a signal that its parent ignores, as this process does under nohup, but
	// not one that its parent handles.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	for before, code := range map[string]int{":": exitInterrupted, `trap "" HUP`: exitOK} {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		c := catChild(t, before, "large", "--config", l.config, "--format", "csv", "--output", path)
		require.NoError(t, c.Start())
		reader, err := os.Open(path)
		require.NoError(t, err)
		_, err = io.ReadFull(reader, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		if code == exitOK {
			_, err = io.Copy(io.Discard, reader)
			require.NoError(t, err)
		}
		_ = c.Wait()
		require.Equal(t, code, c.ProcessState.ExitCode(), before)
		require.NoError(t, reader.Close())
	}
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

// A name may be as long as the system allows.
func TestCatWritesFilesWithLongNames(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	const longest = 255
	path := filepath.Join(dir, strings.Repeat("n", longest))
	got := catInto(t, l, path)
	require.Zero(t, got.code, got.stderr)
	onlyEntries(t, dir, filepath.Base(path))
}
