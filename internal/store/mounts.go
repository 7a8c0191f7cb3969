package store

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// mountsAge is how often the list of mounts is read again, to find storage that
	// is mounted while the server runs.
	mountsAge = time.Minute
	// maxFolders is the maximum number of folders whose mounts are cached.
	maxFolders = 1 << 14
	// maxLinks bounds the symbolic links in one path, as in the kernel.
	maxLinks = 40
	// rootMount is the mount of files that are on no other mount. Without a list of mounts, it is
	// the only mount.
	rootMount = "/"
)

// mountTable finds the mount of a path without accessing a mount that may hang. The kernel's list
// of mounts is not stored on such a mount. Symbolic links are followed only on the root file
// system, from which the program was started. A path through a link on another mount counts as a
// path on that mount, wherever the link leads.
type mountTable struct {
	clock  func() time.Time
	points func() []string              // the mounts
	link   func(string) (string, error) // reads a symbolic link

	mu      sync.Mutex
	read    time.Time
	mounts  []string          // mount points, longest first
	folders map[string]string // cached mounts of folders
}

func newMountTable(clock func() time.Time) *mountTable {
	t := &mountTable{clock: clock, points: mountPoints, link: os.Readlink}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renew()
	return t
}

// of returns the mount of a file, by its absolute path.
func (t *mountTable) of(path string) string {
	folder := filepath.Dir(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock != nil && t.clock().Sub(t.read) >= mountsAge {
		t.renew()
	}
	name, ok := t.folders[folder]
	if !ok {
		if len(t.folders) >= maxFolders {
			clear(t.folders)
		}
		name = t.find(folder)
		t.folders[folder] = name
	}
	return name
}

// renew reads the list of mounts again; t.mu is held.
func (t *mountTable) renew() {
	t.mounts = t.points()
	slices.SortFunc(t.mounts, func(a, b string) int { return len(b) - len(a) })
	t.folders = map[string]string{}
	if t.clock != nil {
		t.read = t.clock()
	}
}

// find returns the mount of a folder, following links.
func (t *mountTable) find(folder string) string {
	for range maxLinks {
		next, linked := t.follow(folder)
		if !linked {
			break
		}
		folder = next
	}
	return t.holds(folder)
}

// follow replaces the first symbolic link of a path by its target, if the link is on the
// root file system.
func (t *mountTable) follow(path string) (next string, linked bool) {
	for at := 1; at < len(path); {
		end := len(path)
		if n := strings.IndexByte(path[at:], '/'); n >= 0 {
			end = at + n
		}
		prefix := path[:end]
		if t.holds(prefix) != rootMount {
			return "", false
		}
		if to, err := t.link(prefix); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(prefix), to)
			}
			return filepath.Join(to, path[end:]), true
		}
		at = end + 1
	}
	return "", false
}

// holds returns the mount that holds a path: the mount whose mount point is the longest prefix of
// the path.
func (t *mountTable) holds(path string) string {
	for _, m := range t.mounts {
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m, "/")); ok && (rest == "" || rest[0] == '/') {
			return m
		}
	}
	return rootMount
}

// mountPoints reads the kernel's list of mounts (see proc(5)). It returns none on systems
// other than Linux.
func mountPoints() []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseMounts(string(text))
}

// parseMounts returns the mount points in mountinfo: the fifth field of each line, in
// which spaces and the like are escaped as octal numbers.
func parseMounts(text string) []string {
	const field = 4
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > field {
			out = append(out, unescape.Replace(fields[field]))
		}
	}
	return out
}
