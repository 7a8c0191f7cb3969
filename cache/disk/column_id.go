package disk

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/digest"
)

// ColumnID identifies the values of a column chunk. Equal IDs mean equal values: files of
// tables never change.
type ColumnID struct {
	Table    string // the table's uuid
	File     string // the file's path, relative to the table's location
	FileSize int64  // in bytes
	RowGroup int
	Field    int    // the column's field id
	Type     string // the type that the reader returns, as a text that is unique to the type
}

// ChunkKey is the digest of a ColumnID.
type ChunkKey [32]byte

// Key returns the digest of all fields.
func (c ColumnID) Key() ChunkKey {
	key, _ := parseKey(digest.Of(c)) // digest.Of returns the hexadecimal digits of a key
	return key
}

// String returns the key as hexadecimal digits.
func (k ChunkKey) String() string { return hex.EncodeToString(k[:]) }

func parseKey(text string) (key ChunkKey, ok bool) {
	n, err := hex.Decode(key[:], []byte(text)[:min(len(text), 2*len(key))])
	return key, err == nil && n == len(key) && len(text) == 2*len(key) && strings.ToLower(text) == text
}

// Names of files. The name of a chunk's file contains its key, its cost and the version of the file
// format. Open gets the size and time of a file from the folder, so it does not read files.
const (
	chunkSuffix = ".v1.chunk"
	chunkFamily = ".chunk" // part of the names of all versions
	tempSuffix  = ".writing"
	lockName    = "lock"
)

// chunkName returns the name of a chunk's file.
func chunkName(key ChunkKey, cost uint32) string {
	return key.String() + "-" + strconv.FormatUint(uint64(cost), 16) + chunkSuffix
}

// parseName is the inverse of chunkName.
func parseName(name string) (key ChunkKey, cost uint32, ok bool) {
	stem, known := strings.CutSuffix(name, chunkSuffix)
	text, digits, cut := strings.Cut(stem, "-")
	key, valid := parseKey(text)
	n, err := strconv.ParseUint(digits, 16, 32)
	ok = known && cut && valid && err == nil && name == chunkName(key, uint32(n))
	return key, uint32(n), ok
}
