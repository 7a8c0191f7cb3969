//go:build !unix

package outfile

import (
	"errors"
	"os"
)

// descriptor returns false: no path names a descriptor.
func descriptor(string) (int, bool) { return 0, false }

// duplicate is not supported.
func duplicate(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
