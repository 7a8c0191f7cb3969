package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test uses a device of its own: wrong code would replace the machine's /dev/null.
//
// spec: output-2
func TestCatKeepsDevices(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	device := filepath.Join(dir, "null")
	const null = 1<<8 | 3 // major 1, minor 3
	if err := syscall.Mknod(device, syscall.S_IFCHR|0o666, null); err != nil {
		require.ErrorIs(t, err, fs.ErrPermission)
		t.Skip("this user may not create devices: ", err)
	}
	before, err := os.Lstat(device)
	require.NoError(t, err)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("null", link))
	for _, path := range []string{device, link} {
		got := catInto(t, l, path)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stderr, "7 rows")
		after, err := os.Stat(path)
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after))
		require.NotZero(t, after.Mode()&fs.ModeCharDevice)
	}
	at, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, at.Mode().Type())
	onlyEntries(t, dir, "null", "link")
}

// A path of /proc may name a file that was removed.
//
// spec: output-2
func TestCatWritesIntoRemovedFile(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	file, err := os.Create(filepath.Join(dir, "rows.csv"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	require.NoError(t, os.Remove(file.Name()))
	got := catInto(t, l, filepath.Join("/proc/self/fd", strconv.Itoa(int(file.Fd()))))
	require.Zero(t, got.code, got.stderr)
	content, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, csvOf(t, l), string(content))
	onlyEntries(t, dir)
}
