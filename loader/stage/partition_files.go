package stage

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/upload"
)

// partitionFiles writes the data files of one partition. It is a write.FileSequence.
type partitionFiles struct {
	*uploading
	number  int // among all of the call
	sorted  int // among those of the sorted rows
	values  []any
	current store.Upload
	added   []commit.DataFile
	tried   []string // locations of files that are complete, or may be
	rows    int64    // written
	bytes   int64
}

// part adds the files of a partition to those of the call.
func (u *uploading) part(values []any) *partitionFiles {
	p := &partitionFiles{uploading: u, number: len(u.parts), values: values}
	u.parts = append(u.parts, p)
	return p
}

// write writes the partition. A choice of nil means that its files choose their encodings themselves.
func (p *partitionFiles) write(ctx context.Context, sorted *extsort.Sorted, choice *write.EncodingChoice) error {
	held, err := p.call.options.Budget.Reserve("data files that are written", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	options := p.call.fileOptions(choice)
	options.Memory = held
	roll, err := write.NewRoll(p, p.call.options.FileBytes, options)
	if err != nil {
		return err
	}
	defer roll.Release()
	rows, err := sorted.Open(ctx, p.sorted)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		if err := roll.Write(ctx, b); err != nil {
			return err
		}
		p.count(b.NumRows(), 0, 0)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return roll.Close(ctx)
}

// fileOptions returns the options of data files.
func (c *staging) fileOptions(choice *write.EncodingChoice) write.Options {
	t := c.target
	rowBytes := max(c.bytes/max(c.read, 1), 1)
	sample := c.options.share(sampleShare, minSample, maxSample)
	return write.Options{
		Schema: t.fileSchema(), UUIDs: slices.Concat(t.state.UUIDs, t.uuids), FormatVersion: t.state.Version, Sorting: t.sorting, Bloom: t.blooms(), Choice: choice,
		RowGroupBytes: c.options.share(groupShare, minGroup, maxGroup), PageRows: min(maxSampleRows, max(sample/rowBytes, 1)), Parallel: c.options.Threads,
	}
}

// count adds to what the call has written, and reports it.
func (p *partitionFiles) count(rows int64, files int, bytes int64) {
	p.rows, p.bytes = p.rows+rows, p.bytes+bytes
	u := p.uploading
	u.mu.Lock()
	defer u.mu.Unlock()
	u.written += rows
	u.call.result.Files += files
	u.call.result.Bytes += bytes
	u.call.report(WriteFilesStep, u.written)
}

// Next implements write.FileSequence.
func (p *partitionFiles) Next(ctx context.Context) (chunk.Destination, error) {
	path := ""
	if !p.flat {
		path = p.call.target.path(p.values)
	}
	location := fmt.Sprintf("%s%s/%s-%05d-%05d.parquet", p.folder, path, p.prefix, p.number, len(p.tried))
	budget := p.call.options.Budget
	file, err := p.files.Begin(ctx, location, upload.ReserveParts(budget))
	if err != nil {
		return nil, err
	}
	p.current, p.tried = file, append(p.tried, location)
	return upload.NewDestination(file, budget), nil
}

// Finish implements write.FileSequence.
func (p *partitionFiles) Finish(ctx context.Context, w write.WrittenFile) error {
	if err := p.current.Finish(ctx); err != nil {
		return err
	}
	p.added = append(p.added, commit.DataFile{
		Location: p.current.Location(), Spec: p.call.target.state.Spec, Partition: p.values, Rows: w.Rows, Bytes: w.Bytes,
		SortOrder: p.call.target.ordered, Splits: w.Splits,
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: w.ColumnBytes, Values: w.Values, Nulls: w.Nulls, NaNs: w.NaNs, Lower: w.Lower, Upper: w.Upper,
		},
	})
	p.current = nil
	p.count(0, 1, w.Bytes)
	return nil
}

// discard ends the open upload and removes the files. Errors are ignored: orphan files are harmless and
// recognized by name.
func (p *partitionFiles) discard(ctx context.Context) {
	if p.current != nil {
		_ = p.current.Abort(ctx)
		p.current = nil
	}
	for _, location := range p.tried {
		_ = p.files.Remove(ctx, location)
	}
}

// again discards what was written, so that the partition can be written once more. Its files get other
// names: a file that could not be removed is not in the way.
func (p *partitionFiles) again(ctx context.Context) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	p.discard(ctx)
	p.count(-p.rows, -len(p.added), -p.bytes)
	p.added = nil
}
