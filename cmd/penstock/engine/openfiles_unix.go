//go:build unix

package engine

import "syscall"

// OpenFiles returns how many files and connections this process may have open at a time; 0 if that is not known. Go has raised the soft
// limit to the hard one.
func OpenFiles() int64 {
	var is syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &is) != nil {
		return 0
	}
	return int64(min(is.Cur, 1<<62)) //nolint:gosec // unlimited is the largest number
}
