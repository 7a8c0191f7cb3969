package segmenttest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const size = 1 << 12

// TestMemoryThatMayChangeIsRefused passes files that their sender could shrink, or others write to,
// and messages with no file or two. No descriptor stays open.
func TestMemoryThatMayChangeIsRefused(t *testing.T) {
	one, other := Pair(t)
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
