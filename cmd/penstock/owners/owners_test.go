//go:build linux || darwin

package owners

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// childVariable is the environment variable with the path of the file that a child process locks.
const childVariable = "PENSTOCK_TEST_OWNERS"

// TestMain also runs as a child process, which locks a byte, prints a line, and ends when its input
// ends.
func TestMain(m *testing.M) {
	path := os.Getenv(childVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	var at int64
	_, _ = fmt.Sscan(os.Args[1], &at)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1})
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// holding starts a process that locks a byte of the file of owners. The returned function kills it.
func holding(t *testing.T, folder string, at int64) (kill func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], strconv.FormatInt(at, 10))
	c.Env = append(os.Environ(), childVariable+"="+filepath.Join(folder, File))
	_, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", line)
	return func() {
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
	}
}

// A server has owners while one of their processes runs, or while a process is about to become an
// owner.
//
// spec: private-30
func TestOwnersAreGoneWhenTheirProcessesEnd(t *testing.T) {
	folder := t.TempDir()
	o, err := Open(folder)
	require.NoError(t, err)
	require.Nil(t, o, "there is no file of owners")

	require.NoError(t, os.WriteFile(filepath.Join(folder, File), nil, 0o600))
	a, b := holding(t, folder, first), holding(t, folder, first+count-1)
	o, err = Open(folder)
	require.NoError(t, err)
	require.False(t, o.Gone())
	a()
	require.False(t, o.Gone())
	comes := holding(t, folder, door)
	b()
	require.False(t, o.Gone(), "a process is about to become an owner")
	comes()
	require.True(t, o.Gone())
	holding(t, folder, first)() // the server has not locked the bytes of owners
}

// Only one server can open the file of owners in a folder.
func TestFileOfOwnersHasOneServer(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, File), nil, 0o600))
	defer holding(t, folder, server)()
	_, err := Open(folder)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
}
