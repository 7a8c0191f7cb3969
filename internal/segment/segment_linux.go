package segment

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// fixedSize are the seals of every segment (fcntl(2)): no process can resize it.
const fixedSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Owned is memory that other processes can map.
type Owned struct {
	file   int
	memory []byte
}

// New returns a segment of the given size in bytes, all zero, to which only its owner can write. It
// needs Linux 5.1. Close releases it.
func New(size int) (*Owned, error) {
	// Mappings that existed before the seal, such as the owner's, stay writable.
	return newSealed(size, fixedSize|unix.F_SEAL_FUTURE_WRITE)
}

// NewWritable returns a segment like New, to which every process that has it can write.
func NewWritable(size int) (*Owned, error) { return newSealed(size, fixedSize) }

func newSealed(size, seals int) (_ *Owned, err error) {
	s := &Owned{}
	if s.file, err = unix.MemfdCreate("penstock-segment", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := unix.Ftruncate(s.file, int64(size)); err != nil {
		return nil, fmt.Errorf("ftruncate to %d bytes: %w", size, err)
	}
	if s.memory, err = unix.Mmap(s.file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(s.file), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return s, nil
}

// Memory returns the segment's memory, until Close.
func (s *Owned) Memory() []byte { return s.memory }

// Send sends a message of at least one byte together with the segment, which the receiver maps.
func (s *Owned) Send(to *net.UnixConn, message []byte) error {
	n, _, err := to.WriteMsgUnix(message, unix.UnixRights(s.file), nil)
	if err != nil {
		return fmt.Errorf("send a segment: %w", err)
	}
	if n < len(message) {
		_, err = to.Write(message[n:])
	}
	return err
}

// Close releases the segment for this process. Mappings of other processes remain readable.
func (s *Owned) Close() error {
	err := unix.Close(s.file)
	if s.memory != nil {
		err = errors.Join(err, unix.Munmap(s.memory))
		s.memory = nil
	}
	return err
}
