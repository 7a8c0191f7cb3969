//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package spool

import "os"

// lock does nothing: these systems do not remove a file that is open.
func lock(*os.File) error { return nil }

// sweepFile removes a file, which fails while a process has it open. It reports whether it removed
// the file.
func sweepFile(path string) bool { return os.Remove(path) == nil }
