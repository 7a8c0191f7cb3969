package spool

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/fault"
)

// Folder is a folder of the spool with files that another program reads or writes by their names.
// Release removes it. Create counts against the spool's limit; what the other program writes does
// not.
type Folder struct {
	spool *Spool
	what  string
	path  string
	lock  *os.File

	mu    sync.Mutex
	bytes int64
}

// A folder gets its name only after its lock file is locked, so that sweep never sees an unlocked
// folder of a running process. folderName matches the names, and newFolder is the pattern of
// earlier names.
const (
	newFolder    = "penstock-*.new"
	folderSuffix = ".folder"
	lockFile     = "lock"
)

var folderName = regexp.MustCompile(`^penstock-[0-9]+\.folder$`)

// CreateFolder creates an empty folder. what is the purpose of the folder, which errors name. The
// caller releases the folder.
func (s *Spool) CreateFolder(what string) (*Folder, error) {
	made, err := os.MkdirTemp(s.folder, newFolder)
	if err != nil {
		return nil, s.broken("create a folder in", err)
	}
	f := &Folder{spool: s, what: what, path: strings.TrimSuffix(made, filepath.Ext(made)) + folderSuffix}
	if f.lock, err = os.Create(filepath.Join(made, lockFile)); err == nil {
		err = lock(f.lock)
	}
	if err == nil {
		err = os.Rename(made, f.path)
	}
	if err != nil {
		_ = f.lock.Close()
		_ = os.RemoveAll(made)
		return nil, s.broken("create a folder in", err)
	}
	s.mu.Lock()
	s.stats.Files++
	s.mu.Unlock()
	return f, nil
}

// Path returns the path of a file in the folder, or of the folder itself if name is "".
func (f *Folder) Path(name string) string { return filepath.Join(f.path, name) }

// Create creates a file at a path that Path returned. Its bytes count against the limit of the spool
// until the folder is released. The caller closes the file.
func (f *Folder) Create(path string) (io.WriteCloser, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, f.spool.broken("create a file in", err)
	}
	return folderFile{file, f}, nil
}

// Release removes the folder and its files.
func (f *Folder) Release() {
	_ = os.RemoveAll(f.path) // if this fails, a later Open removes the folder
	_ = f.lock.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spool.release(f.bytes)
	f.bytes = 0
}

// folderFile is a file of a folder.
type folderFile struct {
	*os.File
	folder *Folder
}

// Write implements io.Writer. The bytes are reserved before they are written.
func (w folderFile) Write(p []byte) (int, error) {
	f := w.folder
	if err := f.spool.reserve(f.what, int64(len(p))); err != nil {
		return 0, err
	}
	f.mu.Lock()
	f.bytes += int64(len(p))
	f.mu.Unlock()
	n, err := w.File.Write(p)
	if err != nil {
		return n, f.spool.broken("write to", err)
	}
	return n, nil
}

// Close implements io.Closer.
func (w folderFile) Close() error {
	if err := w.File.Close(); err != nil {
		return fault.Op(w.folder.spool.broken("write to", err), "write %s", w.folder.what)
	}
	return nil
}
