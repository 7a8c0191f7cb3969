package datafile

import (
	"context"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/upload"
)

// Bounds of the memory of a file that is written: a row group, and the rows that its encodings are chosen by, which are
// encoded in many ways at once.
const (
	sortShare                         = 2                     // of the budget of one call, in which rows are sorted
	groupShare, minGroup, maxGroup    = 32, 1 << 20, 64 << 20 // of the budget, and bytes
	sampleShare, minSample, maxSample = 64, 64 << 10, 8 << 20
	maxSampleRows                     = 20_000
)

// FileStore writes data files, and removes them.
type FileStore interface {
	store.Uploader
	// Remove removes a file if it exists.
	Remove(ctx context.Context, location string) error
}

// Files are the data files of one change.
type Files struct {
	call   *Call
	store  FileStore
	folder string // of data files
	prefix string // of their names
	flat   bool   // files of all partitions are in one folder
	choice write.EncodingChoice
	parts  []*partitionFiles // by partition
	added  []commit.DataFile // of all partitions, in their order
}

// NewFiles returns what writes data files of a table, in the folder of data files or below it. Another attempt with the
// token of the change, whose files may be the table's, has other names. If flat is true, all files are in one folder:
// readers then find them in the order in which they are written.
func (c *Call) NewFiles(files FileStore, folder, token string, flat bool) *Files {
	return &Files{call: c, store: files, folder: folder, prefix: commit.FilePrefix(token) + "-" + commit.AttemptName(), flat: flat}
}

// Added returns the complete files, in the order of their partitions.
func (u *Files) Added() []commit.DataFile { return u.added }

// Path returns the folder of a partition, for people: no reader parses it.
func (t *Target) Path(values []any) string {
	var out strings.Builder
	for i, p := range t.State.Table.Specs[t.State.Spec] {
		column, _ := t.State.Table.ByID(p.Source)
		text := p.Name + "=" + p.Text(values[i], column)
		out.WriteString("/" + strings.Map(plain, fault.Shorten(text, maxFolderName)))
	}
	return out.String()
}

// maxFolderName limits the names of folders, which file systems do.
const maxFolderName = 100

// plain replaces characters that mean something to a file system or in a URI.
func plain(c rune) rune {
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("=._-", c) {
		return c
	}
	return '_'
}

// Discard removes the files of all partitions, which no table has.
func (u *Files) Discard(ctx context.Context) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	for _, p := range u.parts {
		p.discard(ctx)
	}
}
