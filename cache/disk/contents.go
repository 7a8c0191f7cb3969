package disk

import (
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// ListedChunk is a file of a folder.
type ListedChunk struct {
	Key     ChunkKey
	ID      ColumnID // zero if the head of the file is damaged
	Type    string   // of the stored arrays
	Rows    int64
	Bytes   int64 // that count against the limit
	Cost    uint32
	Written time.Time
}

// List returns the chunks in a folder, the last written last. It reads the heads of the files, and
// needs no tier: it may run in another process than the one that uses the folder.
func List(folder string) ([]ListedChunk, error) {
	files, err := existing(folder)
	if err != nil {
		return nil, err
	}
	out := make([]ListedChunk, 0, len(files))
	for _, f := range files {
		one := ListedChunk{Key: f.key, Bytes: footprint(f.size), Cost: f.cost, Written: f.written}
		if h, err := readHead(realSystem().open, filepath.Join(folder, f.name), f); err == nil {
			one.ID, one.Type, one.Rows = h.id, h.of, h.rows
		}
		out = append(out, one)
	}
	return out, nil
}

// existing lists a folder that must exist.
func existing(folder string) ([]foundFile, error) {
	if _, err := os.Lstat(folder); err != nil {
		return nil, fault.New(fault.NotFound, "the cache folder %s does not exist: %w", folder, err).
			WithRemedy("check the setting cache_dir; a server creates the folder when it starts")
	}
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	files, _, err := listFolder(folder)
	return files, err
}

// headSummary is the part of a head that can be read without knowing the Arrow type.
type headSummary struct {
	id   ColumnID
	of   string
	rows int64
}

// readHead reads the head of a file.
func readHead(open func(string) (diskFile, error), path string, f foundFile) (*headSummary, error) {
	disk, err := open(path)
	if err != nil {
		return nil, err
	}
	defer disk.Close() //nolint:errcheck // it was only read
	content := make([]byte, min(f.size, firstRead))
	if err := readFull(disk, content, 0); err != nil {
		return nil, err
	}
	length, err := headLength(content)
	if err != nil {
		return nil, err
	}
	if length > f.size {
		return nil, damaged("it ends within its head")
	}
	whole := make([]byte, length)
	if err := readFull(disk, whole, 0); err != nil {
		return nil, err
	}
	h, _, err := decodeID(whole, f.key)
	if err != nil {
		return nil, err
	}
	return &headSummary{h.id, h.of, h.rows}, nil
}
