package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
)

// Bounds of what is done after a failure, and of the memory of a file that is written: a row group, and the
// rows that its encodings are chosen by, which are encoded in many ways at once.
const (
	discardLimit   = time.Minute
	attemptDigits  = 8
	dataPathOption = "write.data.path"

	groupShare, minGroup, maxGroup    = 16, 1 << 20, 128 << 20 // of the budget, and bytes
	sampleShare, minSample, maxSample = 64, 64 << 10, 8 << 20
	maxSampleRows                     = 20_000
)

// share returns a share of the budget within two bounds.
func share(b *budget.Budget, of, least, most int64) int64 {
	limit := b.Limit()
	if limit < 0 {
		return most
	}
	return min(max(limit/of, least), most)
}

// uploading writes the data files of one call. It is a write.FileSequence.
type uploading struct {
	call    *staging
	files   FileStore
	folder  string // of data files
	prefix  string // of their names
	values  []any  // of the partition
	current store.Upload
	added   []commit.DataFile
	tried   []string // locations of files that are complete, or may be
	written int64    // rows
	choice  write.EncodingChoice
}

// upload writes all partitions as files. After an error it has discarded them.
func (c *staging) upload(ctx context.Context, sorted *extsort.Sorted) (*uploading, error) {
	table := c.target.state.Table
	folder := strings.TrimRight(c.target.state.Properties[dataPathOption], "/")
	if folder == "" {
		folder = strings.TrimRight(table.Location, "/") + "/data"
	}
	files, err := c.tables.FileStore(ctx, c.request.Table, folder)
	if err != nil {
		return nil, err
	}
	// Another attempt with the token, whose files may be the table's, has other names.
	u := &uploading{call: c, files: files, folder: folder, prefix: commit.FilePrefix(c.request.Token) + "-" + uuid.NewString()[:attemptDigits]}
	if err := u.all(ctx, sorted); err != nil {
		u.discard(ctx)
		return nil, err
	}
	return u, nil
}

// all writes all partitions.
func (u *uploading) all(ctx context.Context, sorted *extsort.Sorted) error {
	held, err := u.call.options.Budget.Reserve("data files that are written", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	for i, p := range sorted.Partitions() {
		u.values = p.Values
		if err := u.partition(ctx, sorted, i, held); err != nil {
			return err
		}
	}
	return nil
}

// options returns the options of the data files.
func (u *uploading) options(held *budget.Reservation) write.Options {
	t := u.call.target
	rowBytes := max(u.call.bytes/max(u.call.read, 1), 1)
	sample := share(u.call.options.Budget, sampleShare, minSample, maxSample)
	return write.Options{
		Schema: t.fileSchema(), UUIDs: slices.Concat(t.state.UUIDs, t.uuids), FormatVersion: t.state.Version, Sorting: t.sorting, Choice: &u.choice,
		RowGroupBytes: share(u.call.options.Budget, groupShare, minGroup, maxGroup), PageRows: min(maxSampleRows, max(sample/rowBytes, 1)), Parallel: u.call.options.Threads, Memory: held,
	}
}

// partition writes one partition.
func (u *uploading) partition(ctx context.Context, sorted *extsort.Sorted, i int, held *budget.Reservation) error {
	roll, err := write.NewRoll(u, u.call.options.FileBytes, u.options(held))
	if err != nil {
		return err
	}
	defer roll.Release()
	rows, err := sorted.Open(ctx, i)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		if err := roll.Write(ctx, b); err != nil {
			return err
		}
		u.written += b.NumRows()
		u.call.report(WriteFilesStep, u.written)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return roll.Close(ctx)
}

// Next implements write.FileSequence.
func (u *uploading) Next(ctx context.Context) (chunk.Destination, error) {
	location := fmt.Sprintf("%s%s/%s-%05d.parquet", u.folder, u.path(), u.prefix, len(u.tried))
	budget := u.call.options.Budget
	upload, err := u.files.Begin(ctx, location, func(ctx context.Context, bytes int64) (*release.Handle, error) {
		held, err := budget.ReserveFor(ctx, "parts of data files", bytes)
		if err != nil {
			return nil, err
		}
		return release.New(held.Release), nil
	})
	if err != nil {
		return nil, err
	}
	u.current, u.tried = upload, append(u.tried, location)
	return destination{upload, budget}, nil
}

// destination passes the bytes of a file to its upload. If a write is left behind, its bytes stay
// reserved until it returns.
type destination struct {
	store.Upload
	budget *budget.Budget
}

// Write implements chunk.Destination.
func (d destination) Write(ctx context.Context, p []byte) error {
	err := d.Upload.Write(ctx, p)
	if err != nil {
		if held, full := d.budget.Reserve("bytes of an upload that was left behind", int64(len(p))); full == nil {
			store.WhenReturned(err, held.Release)
		}
	}
	return err
}

// Finish implements write.FileSequence.
func (u *uploading) Finish(ctx context.Context, w write.WrittenFile) error {
	if err := u.current.Finish(ctx); err != nil {
		return err
	}
	u.added = append(u.added, commit.DataFile{
		Location: u.current.Location(), Spec: u.call.target.state.Spec, Partition: u.values, Rows: w.Rows, Bytes: w.Bytes,
		SortOrder: u.call.target.ordered, Splits: w.Splits,
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: w.ColumnBytes, Values: w.Values, Nulls: w.Nulls, NaNs: w.NaNs, Lower: w.Lower, Upper: w.Upper,
		},
	})
	u.current = nil
	u.call.result.Files++
	u.call.result.Bytes += w.Bytes
	u.call.report(WriteFilesStep, u.written)
	return nil
}

// path returns the folder of the partition, for people: no reader parses it.
func (u *uploading) path() string {
	table := u.call.target.state.Table
	var out strings.Builder
	for i, p := range table.Specs[u.call.target.state.Spec] {
		column, _ := table.ByID(p.Source)
		text := p.Name + "=" + p.Text(u.values[i], column)
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

// discard ends the open upload and removes the files, which no table has. What cannot be removed
// stays: it does no harm, and its name tells that it is ours.
func (u *uploading) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	if u.current != nil {
		_ = u.current.Abort(ctx)
		u.current = nil
	}
	for _, location := range u.tried {
		_ = u.files.Remove(ctx, location)
	}
}
