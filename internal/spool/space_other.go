//go:build !(linux || darwin)

package spool

// diskSpace returns zeros: the space is not known on these systems.
func diskSpace(string) (free, size int64) { return 0, 0 }
