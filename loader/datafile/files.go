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

// Bounds of the memory for sorting rows and for writing a file: a row group, and the sample of rows
// that determines the encodings. The sample is encoded in many ways at once.
const (
	sortShare                         = 2                     // rows are sorted in 1/sortShare of the budget of one call
	spareShare                        = 8                     // and in 1/spareShare of the whole budget, which all calls share
	groupShare, minGroup, maxGroup    = 32, 1 << 20, 64 << 20 // reciprocal of the share of the budget, and bounds in bytes
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
	folder string // the folder of data files
	prefix string // the prefix of file names
	flat   bool   // files of all partitions are in one folder
	choice write.EncodingChoice
	parts  []*partitionFiles // the files of each partition
	added  []commit.DataFile // the complete files, in the order of partitions
}

// NewFiles returns Files that writes into the folder of a table's data files or below it. Each
// attempt uses different file names, even with the same token of the change, because files of
// another attempt may already belong to the table. If flat is true, all files are in one folder, so
// that readers find them in the order in which they are written.
func (c *Call) NewFiles(files FileStore, folder, token string, flat bool) *Files {
	return &Files{call: c, store: files, folder: folder, prefix: commit.FilePrefix(token) + "-" + commit.AttemptName(), flat: flat}
}

// Added returns the complete files, in the order of their partitions.
func (u *Files) Added() []commit.DataFile { return u.added }

// Path returns the folder of a partition. It is for people; readers do not parse it.
func (t *Target) Path(values []any) string {
	var out strings.Builder
	for i, p := range t.State.Table.Specs[t.State.Spec] {
		column, _ := t.State.Table.ByID(p.Source)
		text := p.Name + "=" + p.Text(values[i], column)
		out.WriteString("/" + strings.Map(plain, fault.Shorten(text, maxFolderName)))
	}
	return out.String()
}

// maxFolderName limits the length of folder names, since file systems limit it.
const maxFolderName = 100

// plain replaces characters that have a meaning in file systems or URIs.
func plain(c rune) rune {
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("=._-", c) {
		return c
	}
	return '_'
}

// Discard removes the files of all partitions. They must not belong to a table.
func (u *Files) Discard(ctx context.Context) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	for _, p := range u.parts {
		p.discard(ctx)
	}
}
