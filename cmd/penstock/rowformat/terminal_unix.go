//go:build linux || darwin

package rowformat

import (
	"os"
	"syscall"
	"unsafe"
)

// TerminalWidth returns the number of characters in a line of a terminal; 0 if the file is not a
// terminal.
func TerminalWidth(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if failed != 0 {
		return 0
	}
	return int(size.columns)
}
