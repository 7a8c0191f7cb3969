package stage

import (
	"context"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
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

// share returns a share of the budget of one call, within two bounds.
func (o Options) share(of, least, most int64) int64 {
	limit := o.Budget.Limit()
	if limit < 0 {
		return most
	}
	return min(max(limit/int64(o.Calls)/of, least), most)
}

// uploading writes the data files of one call.
type uploading struct {
	call    *staging
	files   FileStore
	folder  string // of data files
	prefix  string // of their names
	flat    bool   // files of all partitions are in one folder
	choice  write.EncodingChoice
	parts   []*partitionFiles // by partition
	added   []commit.DataFile // of all partitions, in their order
	mu      sync.Mutex        // of what follows, and of the call's result and progress
	written int64             // rows
}

// begin begins to write files: none is there yet.
func (c *staging) begin(ctx context.Context) (*uploading, error) {
	folder := c.target.state.DataFolder()
	files, err := c.tables.FileStore(ctx, c.request.Table, folder)
	if err != nil {
		return nil, err
	}
	// Another attempt with the token, whose files may be the table's, has other names.
	return &uploading{call: c, files: files, folder: folder, prefix: commit.FilePrefix(c.request.Token) + "-" + commit.AttemptName()}, nil
}

// upload writes all partitions as files. After an error it has discarded them.
func (c *staging) upload(ctx context.Context, sorted *extsort.Sorted) (*uploading, error) {
	u, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := u.all(ctx, sorted); err != nil {
		u.discard(ctx)
		return nil, err
	}
	return u, nil
}

// path returns the folder of a partition, for people: no reader parses it.
func (t *target) path(values []any) string {
	var out strings.Builder
	for i, p := range t.state.Table.Specs[t.state.Spec] {
		column, _ := t.state.Table.ByID(p.Source)
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

// discard removes the files of all partitions, which no table has.
func (u *uploading) discard(ctx context.Context) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	for _, p := range u.parts {
		p.discard(ctx)
	}
}
