package store

import (
	"io/fs"
	"time"
)

// MaxCalls is maxCalls.
const MaxCalls = maxCalls

// File is an open file of the operating system.
type File = file

// NewLocal makes a Local over calls of the operating system; nil stands for the
// system's own.
func NewLocal(stat func(string) (fs.FileInfo, error), open func(string) (File, error)) Local {
	return Local{system{stat: stat, open: open}}
}

// NewWriting makes a Local over calls of the operating system that link and sync files; nil
// stands for the system's own.
func NewWriting(link func(from, to string) error, sync func(path string) error) Local {
	return Local{system{link: link, sync: sync}}
}

// UnfinishedName is unfinishedName.
func UnfinishedName(name string) string { return unfinishedName(name) }

// FinishedName is finishedName.
func FinishedName(name string) (string, bool) { return finishedName(name) }

// NewCallsOn makes Calls that take the given mount points for all there are.
func NewCallsOn(timeout time.Duration, points ...string) *Calls {
	c := NewCalls(Options{Timeout: timeout})
	c.table = NewMountTable(nil, func() []string { return points }, noLink)
	return c
}

// NewMountTable makes a table of mounts out of what reads them and links.
func NewMountTable(clock func() time.Time, points func() []string, link func(string) (string, error)) *mountTable {
	t := &mountTable{clock: clock, points: points, link: link}
	t.renew()
	return t
}

func noLink(string) (string, error) { return "", fs.ErrInvalid }

// Of is of.
func (t *mountTable) Of(path string) string { return t.of(path) }

// ParseMounts is parseMounts.
func ParseMounts(text string) []string { return parseMounts(text) }
