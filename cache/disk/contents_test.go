package disk

import (
	"path/filepath"
	"time"
)

// listedChunk is a file of a folder.
type listedChunk struct {
	Key     ChunkKey
	ID      ColumnID // zero if the head of the file is damaged
	Type    string   // of the stored arrays
	Rows    int64
	Bytes   int64 // that count against the limit
	Cost    uint32
	Written time.Time
}

// list returns the chunks in a folder, the last written last. It reads the heads of the files.
func list(folder string) ([]listedChunk, error) {
	files, _, err := listFolder(folder)
	if err != nil {
		return nil, err
	}
	out := make([]listedChunk, 0, len(files))
	for _, f := range files {
		one := listedChunk{Key: f.key, Bytes: footprint(f.size), Cost: f.cost, Written: f.written}
		if h, err := readHead(realSystem().open, filepath.Join(folder, f.name), f); err == nil {
			one.ID, one.Type, one.Rows = h.id, h.of, h.rows
		}
		out = append(out, one)
	}
	return out, nil
}
