package datafile

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/parquet/chunk"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/upload"
)

// partitionFiles writes the data files of one partition. It is a write.FileSequence.
type partitionFiles struct {
	*Files
	target  *Target
	number  int // number of the partition in Files
	sorted  int // number of the partition in the sorted rows
	values  []any
	current store.Upload
	added   []commit.DataFile
	tried   []string // locations of files that are, or may be, complete
	rows    int64    // rows written
	bytes   int64
}

// part adds a partition to the files.
func (u *Files) part(t *Target, values []any) *partitionFiles {
	p := &partitionFiles{Files: u, target: t, number: len(u.parts), values: values}
	u.parts = append(u.parts, p)
	return p
}

// write writes the partition. If choice is nil, each file chooses its encodings.
func (p *partitionFiles) write(ctx context.Context, sorted *extsort.Sorted, choice *write.EncodingChoice) error {
	held, err := p.call.options.Budget.Reserve("data files that are written", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	options := p.call.fileOptions(p.target, choice)
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
func (c *Call) fileOptions(t *Target, choice *write.EncodingChoice) write.Options {
	c.mu.Lock()
	rowBytes := max(c.memory/max(c.at.RowsRead, 1), 1)
	c.mu.Unlock()
	sample := c.options.share(sampleShare, minSample, maxSample)
	return write.Options{
		Schema: t.fileSchema(), UUIDs: slices.Concat(t.State.UUIDs, t.uuids), FormatVersion: t.State.Version, Sorting: t.sorting, Bloom: t.blooms(), Choice: choice,
		RowGroupBytes: c.options.groupBytes(), PageRows: min(maxSampleRows, max(sample/rowBytes, 1)), Parallel: c.options.Threads,
	}
}

// count adds to the counts of the call, which reports them.
func (p *partitionFiles) count(rows int64, files int, bytes int64) {
	p.rows, p.bytes = p.rows+rows, p.bytes+bytes
	p.call.count(WriteFiles, func(at *Progress) {
		at.RowsWritten, at.Files, at.Bytes = at.RowsWritten+rows, at.Files+files, at.Bytes+bytes
	})
}

// Next implements write.FileSequence.
func (p *partitionFiles) Next(ctx context.Context) (chunk.Destination, error) {
	path := ""
	if !p.flat && p.target != nil {
		path = p.target.Path(p.values)
	}
	location := fmt.Sprintf("%s%s/%s-%05d-%05d.parquet", p.folder, path, p.prefix, p.number, len(p.tried))
	budget := p.call.options.Budget
	file, err := p.store.Begin(ctx, location, upload.ReserveParts(budget))
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
	metrics := commit.ColumnMetrics{
		ColumnBytes: w.ColumnBytes, Values: w.Values, Nulls: w.Nulls, NaNs: w.NaNs, Lower: w.Lower, Upper: w.Upper,
	}
	withoutMetrics(metrics, p.target.lineage)
	p.added = append(p.added, commit.DataFile{
		Location: p.current.Location(), Spec: p.target.State.Spec, Partition: p.values, Rows: w.Rows, Bytes: w.Bytes,
		SortOrder: p.target.SortOrder, Splits: w.Splits, ColumnMetrics: metrics,
	})
	p.current = nil
	p.count(0, 1, w.Bytes)
	return nil
}

// discard ends the open upload and removes the files. It ignores errors, since orphan files are
// harmless and can be recognized by name.
func (p *partitionFiles) discard(ctx context.Context) {
	if p.current != nil {
		_ = p.current.Abort(ctx)
		p.current = nil
	}
	for _, location := range p.tried {
		_ = p.store.Remove(ctx, location)
	}
}

// again discards the written files, so that the partition can be written again. The new files get
// different names, so a file that could not be removed does no harm.
func (p *partitionFiles) again(ctx context.Context) {
	ctx, cancel := upload.AfterFailure(ctx)
	defer cancel()
	p.discard(ctx)
	p.count(-p.rows, -len(p.added), -p.bytes)
	p.added = nil
}

// withoutMetrics removes the statistics of columns that are not columns of the table.
func withoutMetrics(m commit.ColumnMetrics, columns []catalog.Field) {
	for _, f := range columns {
		for _, counts := range []map[int]int64{m.ColumnBytes, m.Values, m.Nulls, m.NaNs} {
			delete(counts, f.ID)
		}
		delete(m.Lower, f.ID)
		delete(m.Upper, f.ID)
	}
}
