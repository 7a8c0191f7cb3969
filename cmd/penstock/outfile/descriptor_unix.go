//go:build unix

package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// descriptor returns the number of the descriptor that a path names, such as
// /proc/4711/fd/1. It reports false for any other path, and for a descriptor of another
// process. The folder of the path contains no symbolic links.
func descriptor(path string) (int, bool) {
	folder, name := filepath.Split(path)
	own := "/proc/" + strconv.Itoa(os.Getpid()) + "/"
	of, isOwn := strings.CutPrefix(folder, own)
	thread, isThread := strings.CutPrefix(of, "task/")
	if isThread {
		_, of, _ = strings.Cut(thread, "/")
	}
	fd, err := strconv.Atoi(name)
	return fd, err == nil && fd >= 0 && (folder == "/dev/fd/" || isOwn && of == "fd/")
}

// duplicate returns the open file of a descriptor. Both share their position, and closing
// the file leaves the descriptor open.
func duplicate(fd int, path string) (*os.File, error) {
	number, err := syscall.Dup(fd)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	syscall.CloseOnExec(number)
	file := os.NewFile(uintptr(number), path)
	if file == nil {
		return nil, errors.New("the descriptor is invalid")
	}
	return file, nil
}
