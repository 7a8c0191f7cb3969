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
	// mountsAge is how old the list of mounts may be: who mounts storage while
	// the server runs has it told apart from then on.
	mountsAge = time.Minute
	// mostFolders bounds the folders whose mount is remembered.
	mostFolders = 1 << 14
	// mostLinks bounds the symbolic links of one path, as the kernel does.
	mostLinks = 40
	// rootMount is the mount of what is on no other one. Where there is no list
	// of mounts, it is the only one.
	rootMount = "/"
)

// mountTable knows which mount a path is on. It asks no mount: the kernel's list
// of them is no file, and symbolic links are followed on the root file system
// alone, which the program came from. A link on another mount that leads to a
// third counts as the mount that it is on.
type mountTable struct {
	clock  func() time.Time
	points func() []string              // the mounts
	link   func(string) (string, error) // reads a symbolic link

	mu      sync.Mutex
	read    time.Time
	mounts  []string          // longest first
	folders map[string]string // mounts of folders that were asked for
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
		if len(t.folders) >= mostFolders {
			clear(t.folders)
		}
		name = t.find(folder)
		t.folders[folder] = name
	}
	return name
}

// renew reads the mounts anew; t.mu is held.
func (t *mountTable) renew() {
	t.mounts = t.points()
	slices.SortFunc(t.mounts, func(a, b string) int { return len(b) - len(a) })
	t.folders = map[string]string{}
	if t.clock != nil {
		t.read = t.clock()
	}
}

// find returns the mount of a folder, links followed.
func (t *mountTable) find(folder string) string {
	for range mostLinks {
		next, linked := t.follow(folder)
		if !linked {
			break
		}
		folder = next
	}
	return t.holds(folder)
}

// follow replaces the first symbolic link of a path that is on the root file
// system by where it leads.
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

// holds returns the mount whose mount point is the longest prefix of a path.
func (t *mountTable) holds(path string) string {
	for _, m := range t.mounts {
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m, "/")); ok && (rest == "" || rest[0] == '/') {
			return m
		}
	}
	return rootMount
}

// mountPoints reads the kernel's list of mounts, as proc(5) has it; other
// systems than Linux have none.
func mountPoints() []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseMounts(string(text))
}

// parseMounts returns the mount points of mountinfo: the fifth of each line's
// fields, in which spaces and the like are written as octal numbers.
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
