package segment

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const size = 1 << 12

// pair returns two ends of a Unix socket.
func pair(t *testing.T) (one, other *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // of a test
	one, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: l.Addr().String()})
	require.NoError(t, err)
	other, err = l.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, one.Close()); require.NoError(t, other.Close()) })
	return one, other
}

// TestNoOtherProcessWritesOrResizes tries all ways to change a segment with its descriptor.
//
// spec: local-6
func TestNoOtherProcessWritesOrResizes(t *testing.T) {
	s, err := New(size)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = unix.Mmap(s.file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Write(s.file, []byte{1})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(s.file, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(s.file, 2*size), unix.EPERM)
	require.ErrorIs(t, unix.Fallocate(s.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size), unix.EPERM)
	_, err = unix.FcntlInt(uintptr(s.file), unix.F_ADD_SEALS, 0)
	require.ErrorIs(t, err, unix.EPERM)
	read, err := unix.Mmap(s.file, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	require.ErrorIs(t, unix.Mprotect(read, unix.PROT_READ|unix.PROT_WRITE), unix.EACCES)
	require.NoError(t, unix.Munmap(read))
	for _, b := range s.Memory() {
		require.Zero(t, b)
	}
}

// TestReceiversSeeWhatTheOwnerWrites passes a segment, and closes it: what was received stays readable.
func TestReceiversSeeWhatTheOwnerWrites(t *testing.T) {
	one, other := pair(t)
	s, err := New(size)
	require.NoError(t, err)
	s.Memory()[0] = 7
	require.NoError(t, s.Send(one, []byte("segment 3")))
	message := make([]byte, 16)
	n, r, err := Receive(other, message)
	require.NoError(t, err)
	require.Equal(t, "segment 3", string(message[:n]))
	require.Len(t, r.Memory(), size)
	s.Memory()[1] = 8
	require.Equal(t, []byte{7, 8}, r.Memory()[:2])
	require.NoError(t, s.Close())
	require.Equal(t, []byte{7, 8}, r.Memory()[:2])
	require.NoError(t, r.Close())
}

// TestMemoryThatMayChangeIsRefused passes files that their sender could shrink, or others write to,
// and messages with no file or two. No descriptor stays open.
func TestMemoryThatMayChangeIsRefused(t *testing.T) {
	one, other := pair(t)
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(files)
	}
	memfd := func(seals int) int {
		file, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(file, size))
		_, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return file
	}
	unsealed, shrinks, written := memfd(0), memfd(seals&^unix.F_SEAL_SHRINK), memfd(seals&^unix.F_SEAL_FUTURE_WRITE)
	sealed := memfd(seals)
	before := open()
	for name, c := range map[string]struct {
		files []int
		says  string
	}{
		"unsealed":         {[]int{unsealed}, "it has the seals 0x0"},
		"may shrink":       {[]int{shrinks}, "it has the seals"},
		"may be written":   {[]int{written}, "it has the seals"},
		"no memfd":         {[]int{0}, "its seals"},
		"none":             {nil, "0 files were passed"},
		"two":              {[]int{sealed, sealed}, "files were passed"},
		"more than fit in": {[]int{sealed, sealed, sealed, sealed, sealed}, "files were passed"},
	} {
		var rights []byte
		if len(c.files) > 0 {
			rights = unix.UnixRights(c.files...)
		}
		_, _, err := one.WriteMsgUnix([]byte{1}, rights, nil)
		require.NoError(t, err, name)
		_, _, err = Receive(other, make([]byte, 1))
		require.ErrorContains(t, err, c.says, name)
		require.Equal(t, before, open(), name)
	}
	for _, file := range []int{unsealed, shrinks, written, sealed} {
		require.NoError(t, unix.Close(file))
	}
}

// TestSegmentsLeaveNothingOpen makes segments, including one of an impossible size.
func TestSegmentsLeaveNothingOpen(t *testing.T) {
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, size := range []int{-1, 0} {
		_, err := New(size)
		require.Error(t, err)
	}
	s, err := New(size)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	after, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	require.Len(t, after, len(files))
}
