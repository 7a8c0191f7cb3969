package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A client can neither write to mapped memory nor resize it.
func TestMappedMemoryIsSealed(t *testing.T) {
	m, err := newMapped(1 << 12)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	_, err = unix.Mmap(m.file, 0, 1<<12, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Write(m.file, []byte{1})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(m.file, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(m.file, 1<<13), unix.EPERM)
	m.bytes[0] = 7
	read, err := unix.Mmap(m.file, 0, 1<<12, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	require.EqualValues(t, 7, read[0])
	require.NoError(t, unix.Munmap(read))
}

func TestSlotsThatAreTooSmallAreAnError(t *testing.T) {
	forms, err := draw(1, 20, 1)
	require.NoError(t, err)
	_, err = copyInto(make([]byte, 100), forms[plain], 0)
	require.ErrorContains(t, err, "does not fit in 100 bytes")
}
