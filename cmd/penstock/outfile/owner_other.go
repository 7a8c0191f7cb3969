//go:build !unix

package outfile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing on systems without numeric owners.
func keepOwner(*os.File, fs.FileInfo) {}
