//go:build !unix

package keyfile

import "os"

// The mode of a file does not tell who may use it on these systems.

func writers(os.FileInfo) string { return "" }

func usableByOthers(os.FileInfo) bool { return false }
