//go:build !unix

package engine

// OpenFiles returns how many files and connections this process may have open at a time; 0 if that is not known.
func OpenFiles() int64 { return 0 }
