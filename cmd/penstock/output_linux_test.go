package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test names the device by the path of an open file, because wrong code would replace the
// machine's /dev/null.
//
// spec: output-3
func TestCatRefusesDevices(t *testing.T) {
	l := readLake(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, null.Close()) }()
	got := catInto(t, l, filepath.Join("/proc/self/fd", strconv.Itoa(int(null.Fd()))))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "is not a regular file")
}

// A path such as /dev/stdout names an open file that other processes may write to. Replacing the
// file would lose their output.
//
// spec: output-3
func TestCatRefusesOpenFiles(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	path, link := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "link")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	before, err := file.Stat()
	require.NoError(t, err)
	fd := strconv.Itoa(int(file.Fd()))
	require.NoError(t, os.Symlink(filepath.Join("/proc/self/fd", fd), link)) // like /dev/stdout
	for _, output := range []string{"/dev/fd/" + fd, "/proc/self/fd/" + fd, "/proc/thread-self/fd/" + fd, link} {
		got := catInto(t, l, output)
		require.Equal(t, exitUsage, got.code, output)
		require.Contains(t, got.stderr, output+" is not a regular file: name a file, or leave --output out")
	}
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Zero(t, after.Size())
	onlyEntries(t, dir, "rows.csv", "link")
}
