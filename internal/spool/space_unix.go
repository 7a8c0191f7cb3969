//go:build linux || darwin

package spool

import "syscall"

// diskSpace returns how many bytes a folder's disk has free for this process, and the disk's size
// in bytes. It returns zeros if these are not known.
func diskSpace(folder string) (free, size int64) {
	var is syscall.Statfs_t
	if syscall.Statfs(folder, &is) != nil {
		return 0, 0
	}
	block := int64(is.Bsize)
	return int64(is.Bavail) * block, int64(is.Blocks) * block //nolint:gosec // no disk has 2^63 bytes
}
