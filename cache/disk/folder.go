package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// foundFile is the directory entry of a chunk's file.
type foundFile struct {
	name    string
	key     ChunkKey
	cost    uint32
	size    int64
	written time.Time
}

// openedFolder is a locked folder and the list of its files. Close unlocks the folder.
type openedFolder struct {
	lock  *os.File
	files []foundFile // in the order in which they were written
	stuck int64       // the footprint of unusable files that could not be deleted
}

// Close unlocks the folder.
func (l *openedFolder) Close() error { return l.lock.Close() }

// openFolder creates a folder if it does not exist, locks it, lists it, and deletes the files of
// the tier that cannot be used; see listFolder.
func openFolder(folder string, remove func(string) error) (_ *openedFolder, err error) {
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	lockFile, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE|noFollow, fileMode)
	if err != nil {
		return nil, unusable(folder, err)
	}
	defer func() {
		if err != nil {
			_ = lockFile.Close()
		}
	}()
	if taken, err := lock(lockFile); taken {
		return nil, fault.New(fault.Conflict, "the cache folder %s is in use by another process", folder).
			WithRemedy("give each server a folder of its own with the setting cache_dir")
	} else if err != nil {
		return nil, unusable(folder, err)
	}
	files, unusables, err := listFolder(folder)
	if err != nil {
		return nil, err
	}
	l := &openedFolder{lock: lockFile, files: files}
	for _, f := range unusables {
		if remove(filepath.Join(folder, f.name)) != nil {
			l.stuck += footprint(f.size)
		}
	}
	return l, nil
}

// checkFolder creates the folder, but not its parents: if the path is mistyped, the cache would
// otherwise fill the disk of the first parent that exists. It refuses a folder that another user
// owns or has access to.
func checkFolder(folder string) error {
	made := os.Mkdir(folder, folderMode)
	found, err := os.Lstat(folder)
	switch {
	case errors.Is(made, fs.ErrNotExist) && exists(filepath.Dir(filepath.Clean(folder))):
		return fault.New(fault.Invalid, "the cache folder %s cannot be created: its parent folder exists, but is not on a disk, as /proc", folder).
			WithRemedy("name a folder on a local disk with the setting cache_dir")
	case errors.Is(made, fs.ErrNotExist):
		return fault.New(fault.Invalid, "the cache folder %s does not exist, and neither does its parent folder", folder).
			WithRemedy("correct the setting cache_dir, or create %s", filepath.Dir(filepath.Clean(folder)))
	case err != nil:
		return unusable(folder, errors.Join(made, err))
	case !found.IsDir():
		return fault.New(fault.Invalid, "the cache folder %s is not a folder, or is a symbolic link", folder).
			WithRemedy("set cache_dir to a folder")
	case found.Mode().Perm()&othersModes != 0 || !ours(found):
		return fault.New(fault.Invalid, "the cache folder %s has mode %s, or belongs to another user: other users could read or replace its files", folder, found.Mode()).
			WithRemedy("set cache_dir to a folder that does not exist yet: the server creates it with mode 0700")
	}
	return nil
}

// exists reports whether a path can be followed to a file or a folder.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func unusable(folder string, err error) error {
	return fault.New(fault.Unavailable, "the cache folder %s cannot be used: %w", folder, err).
		WithRemedy("check that Penstock can write to it, or set cache_dir to another folder")
}

// listFolder returns the chunks of a folder, and the files of the tier that cannot be used:
// incomplete files, files of other versions, files that another user owns or has access to, and all
// but the first file of a key. Files with other names do not belong to the tier.
func listFolder(folder string) (chunks, unusables []foundFile, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, unusable(folder, err)
	}
	seen := map[ChunkKey]bool{}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, tempSuffix) && !strings.HasSuffix(name, chunkFamily) {
			continue
		}
		found, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process deleted it
		}
		if err != nil {
			return nil, nil, unusable(folder, err)
		}
		f := foundFile{name: name, size: found.Size(), written: found.ModTime()}
		var ok bool
		if f.key, f.cost, ok = parseName(name); !ok || private(found) != nil || seen[f.key] {
			unusables = append(unusables, f)
			continue
		}
		seen[f.key] = true
		chunks = append(chunks, f)
	}
	slices.SortStableFunc(chunks, func(a, b foundFile) int { return a.written.Compare(b.written) })
	return chunks, unusables, nil
}
