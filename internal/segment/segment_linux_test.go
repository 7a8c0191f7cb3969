package segment

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/internal/segment/segmenttest"
)

const size = 1 << 12

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
	one, other := segmenttest.Pair(t)
	s, err := New(size)
	require.NoError(t, err)
	s.Memory()[0] = 7
	require.NoError(t, s.Send(one, []byte("segment 3")))
	message := make([]byte, 16)
	n, r, err := segmenttest.Receive(other, message)
	require.NoError(t, err)
	require.Equal(t, "segment 3", string(message[:n]))
	require.Len(t, r.Memory(), size)
	s.Memory()[1] = 8
	require.Equal(t, []byte{7, 8}, r.Memory()[:2])
	require.NoError(t, s.Close())
	require.Equal(t, []byte{7, 8}, r.Memory()[:2])
	require.NoError(t, r.Close())
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
