package segment

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxFiles is the maximum number of files that Receive accepts with a packet. The kernel closes
// others.
const maxFiles = 2

// Receive reads a packet and the files that were sent with it. The caller closes the files.
func Receive(from *net.UnixConn, packet []byte) (n int, files []*os.File, err error) {
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, control, _, _, err := from.ReadMsgUnix(packet, rights) // sets close-on-exec
	if err != nil || control == 0 {
		return n, nil, err
	}
	parsed, err := unix.ParseSocketControlMessage(rights[:control])
	for i := range parsed {
		some, failed := unix.ParseUnixRights(&parsed[i])
		err = errors.Join(err, failed)
		for _, file := range some {
			files = append(files, os.NewFile(uintptr(file), "received"))
		}
	}
	return n, files, err
}

// ReadSealed returns the content of a memfd that another process has passed and that no process can
// change. It returns an error if the file has more than limit bytes.
func ReadSealed(file *os.File, limit int64) ([]byte, error) {
	const required = unix.F_SEAL_SHRINK | unix.F_SEAL_WRITE
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0) // an error for files that are no memory
	if err != nil {
		return nil, fmt.Errorf("the seals of a received file: %w", err)
	}
	if seals&required != required {
		return nil, errors.New("a received file may change")
	}
	is, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if is.Size() > limit {
		return nil, fmt.Errorf("a received file has %d bytes, more than %d", is.Size(), limit)
	}
	content := make([]byte, is.Size())
	_, err = file.ReadAt(content, 0)
	return content, err
}
