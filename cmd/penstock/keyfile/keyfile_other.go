//go:build !unix

package keyfile

import "os"

// On these systems, the mode of a file does not show which users may access it.

func writers(os.FileInfo) string { return "" }

func usableByOthers(os.FileInfo) bool { return false }
