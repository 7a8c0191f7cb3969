package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// A path of /proc may name a file that another process has open and that was removed.
//
// spec: output-2
func TestCatWritesIntoRemovedFile(t *testing.T) {
	l, dir := readLake(t), t.TempDir()
	file, err := os.Create(filepath.Join(dir, "rows.csv"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	holder := exec.CommandContext(t.Context(), "cat")
	holder.Stdout = file
	ends, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	defer func() { require.NoError(t, errors.Join(ends.Close(), holder.Wait())) }()
	require.NoError(t, os.Remove(file.Name()))
	got := catInto(t, l, filepath.Join("/proc", strconv.Itoa(holder.Process.Pid), "fd/1"))
	require.Zero(t, got.code, got.stderr)
	content, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, csvOf(t, l), string(content))
	onlyEntries(t, dir)
}

// A path such as /dev/stdout names an open file, to which others write too. What they wrote
// before stays, and so does what they write afterwards.
//
// spec: output-7
func TestCatWritesIntoOpenFile(t *testing.T) {
	l := readLake(t)
	want := csvOf(t, l)
	for name, flags := range map[string]int{"redirected": os.O_TRUNC, "appended": os.O_APPEND} {
		for _, folder := range []string{"/dev/fd", "/proc/self/fd", "/proc/thread-self/fd", "link"} {
			t.Run(name+" "+folder, func(t *testing.T) {
				runtime.LockOSThread() // thread-self is this thread
				defer runtime.UnlockOSThread()
				dir := t.TempDir()
				path := filepath.Join(dir, "rows.csv")
				require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o600))
				file, err := os.OpenFile(path, os.O_WRONLY|flags, 0)
				require.NoError(t, err)
				defer func() { require.NoError(t, file.Close()) }()
				_, err = file.WriteString("before\n")
				require.NoError(t, err)
				output := filepath.Join(folder, strconv.Itoa(int(file.Fd())))
				entries := []string{"rows.csv"}
				if folder == "link" { // like /dev/stdout
					require.NoError(t, os.Symlink(filepath.Join("/proc/self/fd", strconv.Itoa(int(file.Fd()))), filepath.Join(dir, "link")))
					output, entries = filepath.Join(dir, "link"), append(entries, "link")
				}
				got := catInto(t, l, output)
				require.Zero(t, got.code, got.stderr)
				_, err = file.WriteString("after\n")
				require.NoError(t, err)
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				kept := map[string]string{"redirected": "", "appended": "old\n"}[name]
				require.Equal(t, kept+"before\n"+want+"after\n", string(content))
				onlyEntries(t, dir, entries...)
			})
		}
	}
}
