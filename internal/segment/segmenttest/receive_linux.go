package segmenttest

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// The seals of a segment (fcntl(2)).
const (
	fixedSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	seals     = fixedSize | unix.F_SEAL_FUTURE_WRITE
)

// Received is the memory of another process's segment. This process can only read it, unless
// ReceiveWritable received it.
type Received struct{ memory []byte }

// Receive reads the message of a single Send, at most len(message) bytes, and maps the segment that
// was sent with it. It fails if the memory could shrink, or if processes besides its owner could
// write to it.
func Receive(from *net.UnixConn, message []byte) (n int, r *Received, err error) {
	return receive(from, message, seals, unix.PROT_READ)
}

// ReceiveWritable is like Receive, for a segment to which this process can write.
func ReceiveWritable(from *net.UnixConn, message []byte) (n int, r *Received, err error) {
	return receive(from, message, fixedSize, unix.PROT_READ|unix.PROT_WRITE)
}

func receive(from *net.UnixConn, message []byte, seals, access int) (n int, r *Received, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, control, flags, _, err := from.ReadMsgUnix(message, rights)
	if err != nil {
		return 0, nil, fmt.Errorf("receive a segment: %w", err)
	}
	file, err := passedFile(rights[:control], flags)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, unix.Close(file)) }()
	got, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("receive a segment: its seals: %w", err)
	}
	if got&seals != seals {
		return 0, nil, fmt.Errorf("receive a segment: it has the seals %#x instead of %#x", got, seals)
	}
	var is unix.Stat_t
	if err := unix.Fstat(file, &is); err != nil {
		return 0, nil, fmt.Errorf("receive a segment: %w", err)
	}
	r = &Received{}
	if r.memory, err = unix.Mmap(file, 0, int(is.Size), access, unix.MAP_SHARED); err != nil {
		return 0, nil, fmt.Errorf("mmap of %d bytes: %w", is.Size, err)
	}
	return n, r, nil
}

// passedFile returns the single file descriptor of a control message. It closes all others.
func passedFile(control []byte, flags int) (int, error) {
	parsed, err := unix.ParseSocketControlMessage(control)
	var files []int
	for i := range parsed {
		some, failed := unix.ParseUnixRights(&parsed[i])
		err = errors.Join(err, failed)
		files = append(files, some...)
	}
	if err == nil && len(files) == 1 && flags&unix.MSG_CTRUNC == 0 {
		return files[0], nil
	}
	if err == nil {
		err = fmt.Errorf("%d files were passed instead of one", len(files))
	}
	for _, f := range files {
		err = errors.Join(err, unix.Close(f))
	}
	return 0, fmt.Errorf("receive a segment: %w", err)
}

// Memory returns the segment's memory, until Close. Writing to it is a fault.
func (r *Received) Memory() []byte { return r.memory }

// Close unmaps the memory.
func (r *Received) Close() error { return unix.Munmap(r.memory) }

// SendSealed sends a message with a memfd that no process can change.
func SendSealed(to *net.UnixConn, message, content []byte) (err error) {
	file, err := unix.MemfdCreate("penstock-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(file)) }()
	if _, err := unix.Write(file, content); err != nil {
		return fmt.Errorf("write %d bytes: %w", len(content), err)
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, fixedSize|unix.F_SEAL_WRITE); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	_, _, err = to.WriteMsgUnix(message, unix.UnixRights(file), nil)
	return err
}
