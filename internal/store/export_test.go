package store

import "io/fs"

// File is an open file of the operating system.
type File = file

// NewLocal makes a Local over calls of the operating system; nil stands for the
// system's own.
func NewLocal(stat func(string) (fs.FileInfo, error), open func(string) (File, error)) Local {
	return Local{system{stat: stat, open: open}}
}
