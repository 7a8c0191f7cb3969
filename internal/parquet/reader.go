package parquet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// streamBuffer is the size of the buffer that the decoder gives a stream.
const streamBuffer = 16 << 10

// reader decodes row group after row group. Between calls of Next it holds
// the stored bytes of the open row group, and nothing runs.
type reader struct {
	ctx     context.Context //nolint:containedctx // a reader's interface has no context; it lives for one read
	file    *File
	opts    ReadOptions
	schema  *arrow.Schema
	columns []column
	source  *source
	memory  *tracked            // of the decoder
	cleared *pqarrow.FileReader // decodes into zeroed memory
	plain   *pqarrow.FileReader // decodes into memory of any content
	pages   *file.Reader        // what both stand on

	next  int                     // of opts.RowGroups, the one to open
	group int                     // the open one, of the file
	left  int64                   // its rows that are not yet out
	open  []*pqarrow.ColumnReader // its columns; nil for absent and own ones
	own   []ownColumn             // its columns that need no library to decode; nil for the others

	batch arrow.RecordBatch
	err   error
	refs  atomic.Int64
}

// ownColumn is a column of the open row group that is decoded by this package.
type ownColumn interface {
	// read decodes the next rows, fewer only at the end; it returns a reference.
	read(rows int, mem memory.Allocator) (arrow.ArrayData, error)
	// close gives the pages' memory back.
	close()
}

func newReader(ctx context.Context, f *File, columns []column, opts ReadOptions) (*reader, error) {
	r := &reader{
		ctx: ctx, file: f, opts: opts, schema: plainSchema(opts.Schema), columns: columns,
		source: &source{ctx: ctx, obj: f.obj, scratch: opts.Scratch},
		memory: track(opts.Memory),
	}
	r.refs.Store(1)
	props := parquet.NewReaderProperties(opts.Scratch)
	props.BufferedStreamEnabled = r.chunksAreLarge()
	var err error
	if r.pages, err = file.NewParquetReader(r.source, file.WithMetadata(f.meta), file.WithReadProps(props)); err != nil {
		return nil, damaged(f.Location(), "%w", err)
	}
	if r.cleared, err = pqarrow.NewFileReader(r.pages, pqarrow.ArrowReadProperties{}, cleared{r.memory}); err != nil {
		return nil, damaged(f.Location(), "%w", err)
	}
	if r.plain, err = pqarrow.NewFileReader(r.pages, pqarrow.ArrowReadProperties{}, r.memory); err != nil {
		return nil, damaged(f.Location(), "%w", err)
	}
	return r, nil
}

// chunksAreLarge chooses how the decoder gets at the source's memory: through
// a stream with a buffer of its own, or by copying each chunk whole, which is
// cheaper for chunks smaller than that buffer.
func (r *reader) chunksAreLarge() bool {
	if len(r.opts.RowGroups) == 0 {
		return false
	}
	spans := r.file.spans(r.opts.RowGroups[0], r.columns)
	var sum int64
	for _, s := range spans {
		sum += s.length
	}
	return sum > streamBuffer*int64(len(spans))
}

func (r *reader) Schema() *arrow.Schema          { return r.schema }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *reader) Record() arrow.RecordBatch      { return r.batch }
func (r *reader) Err() error                     { return r.err }
func (r *reader) Retain()                        { r.refs.Add(1) }

func (r *reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "a Parquet reader was released too often")
	if left == 0 {
		r.dropBatch()
		r.closeGroup()
	}
}

func (r *reader) dropBatch() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

// Next decodes the next batch. It returns false at the end and on an error.
func (r *reader) Next() bool {
	r.dropBatch()
	if r.err != nil || r.refs.Load() <= 0 {
		return false
	}
	for r.left == 0 {
		if err := r.nextGroup(); err != nil {
			r.fail(err)
			return false
		}
		if r.open == nil {
			return false
		}
	}
	rows := min(r.left, int64(r.opts.BatchRows))
	arrays, err := r.decodeAll(rows)
	defer release(arrays)
	if err != nil {
		r.fail(err)
		return false
	}
	r.left -= rows
	r.batch = array.NewRecordBatch(r.schema, arrays, rows)
	return true
}

// fail ends the reader with an error that names file and row group. What the
// decoder says is damage, unless storage failed or the context ended before.
func (r *reader) fail(err error) {
	_, known := errors.AsType[*fault.Error](err)
	switch cause := r.source.failure(); {
	case cause != nil:
		err = cause
	case r.ctx.Err() != nil:
		err = context.Cause(r.ctx)
	case !known:
		err = damaged(r.file.Location(), "%w", err)
	}
	r.closeGroup()
	out := fault.As(fault.Op(err, "read row group %d of %s", r.group, r.file.Location()))
	r.err = out.In(out.Table, r.file.Location()).InRowGroup(r.group)
}

// nextGroup ends the open row group and opens the next; open is nil after the
// last.
func (r *reader) nextGroup() error {
	if err := r.ctx.Err(); err != nil {
		return context.Cause(r.ctx)
	}
	if r.open != nil {
		if err := r.checkEnd(); err != nil {
			return err
		}
	}
	r.closeGroup()
	if r.next == len(r.opts.RowGroups) {
		return nil
	}
	r.group = r.opts.RowGroups[r.next]
	r.next++
	r.left = r.file.groups[r.group].Rows
	r.open, r.own = make([]*pqarrow.ColumnReader, len(r.columns)), make([]ownColumn, len(r.columns))
	if r.left == 0 {
		return nil
	}
	if err := r.source.load(r.file.spans(r.group, r.columns)); err != nil {
		return err
	}
	for i, c := range r.columns {
		if c.field < 0 {
			continue
		}
		if err := r.openColumn(i); err != nil {
			return fmt.Errorf("column %s: %w", c.shape.path, err)
		}
	}
	return nil
}

func (r *reader) openColumn(i int) (err error) {
	defer recovered(&err, r.file.Location(), "a column cannot be decoded")
	c := r.columns[i]
	if r.own[i], err = r.openOwn(r.file.fields[c.field]); err != nil {
		return err
	}
	if err := r.checkPages(c, r.own[i] == nil); err != nil || r.own[i] != nil {
		return err
	}
	if r.loose(c) {
		if err := r.checkLevels(c); err != nil {
			return err
		}
	}
	leaves := make(map[int]bool, len(c.leaves))
	for _, leaf := range c.leaves {
		leaves[leaf] = true
	}
	decoder := r.cleared
	if c.shape.flat {
		decoder = r.plain
	}
	r.open[i], err = decoder.GetFieldReader(r.ctx, c.field, leaves, []int{r.group})
	return err
}

// openOwn opens a top-level column if this package decodes it, else returns
// nil. Its pages are verified as they are read.
func (r *reader) openOwn(field Field) (ownColumn, error) {
	// Old files' chunks are longer than they say, which the library knows.
	strange := r.file.meta.WriterVersion().LessThan(metadata.Parquet816FixedVersion)
	flat, list := r.file.newFlatColumn(r.group, field), r.file.newListColumn(r.group, field)
	if strange || flat == nil && list == nil {
		return nil, nil //nolint:nilnil // no column is no error
	}
	chunk := r.source.loaded(r.file.chunkSpan(r.group, field.Leaves[0]))
	pages, err := r.file.newPages(r.group, field.Leaves[0], chunk, r.opts.Scratch)
	if err != nil {
		return nil, err
	}
	if flat != nil {
		flat.pages = pages
		return flat, nil
	}
	list.pages = pages
	return list, nil
}

// checkPages holds a column's pages to the footer, and verifies checksums where the
// library will read them.
func (r *reader) checkPages(c column, sums bool) error {
	for _, leaf := range c.leaves {
		chunk := r.source.loaded(r.file.chunkSpan(r.group, leaf))
		if err := r.file.checkPages(r.group, leaf, chunk, sums, func() error { return r.withoutChecksum(c) }); err != nil {
			return err
		}
	}
	return nil
}

// withoutChecksum is called for a page of a column that has no checksum.
func (r *reader) withoutChecksum(c column) error {
	if r.opts.RequireChecksums {
		return fault.New(fault.Invalid, "column %s has pages without a checksum, which this server requires", c.shape.path).
			WithRemedy("rewrite the file with page checksums (Spark: parquet.page.write-checksum.enabled, PyArrow: write_page_checksum), or turn require_checksums off")
	}
	if r.opts.WithoutChecksum != nil {
		r.opts.WithoutChecksum()
	}
	return nil
}

// closeGroup gives back what the open row group holds.
func (r *reader) closeGroup() {
	for i, c := range r.open {
		if c != nil {
			r.closeColumn(i)
		}
	}
	for _, c := range r.own {
		if c != nil {
			c.close()
		}
	}
	r.open, r.own, r.left = nil, nil, 0
	r.memory.sweep()
	r.source.unload()
}

func (r *reader) closeColumn(i int) {
	var ignored error
	defer recovered(&ignored, r.file.Location(), "")
	r.open[i].Release()
}

// decodeAll decodes the next rows of all columns, for the caller to release
// also on an error.
func (r *reader) decodeAll(rows int64) ([]arrow.Array, error) {
	arrays := make([]arrow.Array, len(r.columns))
	if r.opts.Parallel <= 1 {
		for i := range arrays {
			var err error
			if arrays[i], err = r.decode(i, rows); err != nil {
				return arrays, err
			}
		}
		return arrays, nil
	}
	var group errgroup.Group
	group.SetLimit(r.opts.Parallel)
	for i := range arrays {
		group.Go(func() (err error) {
			arrays[i], err = r.decode(i, rows)
			return err
		})
	}
	return arrays, group.Wait()
}

// decode decodes the next rows of one column.
func (r *reader) decode(i int, rows int64) (arrow.Array, error) {
	c := r.columns[i]
	if c.field < 0 {
		return array.MakeArrayOfNull(cleared{r.opts.Memory}, c.shape.want, int(rows)), nil
	}
	decoded, err := r.decodeRows(i, rows)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.shape.path, err)
	}
	defer decoded.Release()
	if got := decoded.Len(); int64(got) != rows {
		return nil, fmt.Errorf("column %s ends early: %d of %d rows are missing", c.shape.path, r.left-int64(got), r.left)
	}
	shaped, err := c.shape.apply(decoded, nil, r.opts.Memory)
	if err != nil {
		return nil, err
	}
	defer shaped.Release()
	return array.MakeFromData(shaped), nil
}

// decodeRows decodes the next rows of one column as the file has them, for the
// caller to release; fewer only at the column's end.
func (r *reader) decodeRows(i int, rows int64) (arrow.ArrayData, error) {
	if r.own[i] != nil {
		return r.decodeOwn(i, rows)
	}
	c := r.columns[i]
	decoded, err := r.decodeChunked(i, rows)
	if err != nil {
		return nil, err
	}
	defer decoded.Release()
	if decoded.Len() == 0 {
		return array.NewData(decoded.DataType(), 0, []*memory.Buffer{nil}, nil, 0, 0), nil
	}
	if len(decoded.Chunks()) != 1 {
		return nil, fault.New(fault.Exhausted, "%d rows are too large for one batch", rows).WithRemedy("ask for fewer rows per batch")
	}
	out := decoded.Chunk(0).Data()
	r.memory.handOut(out)
	return unwrap(out, c.depth, r.opts.Memory), nil
}

func (r *reader) decodeOwn(i int, rows int64) (out arrow.ArrayData, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.own[i].read(int(rows), r.opts.Memory)
}

func (r *reader) decodeChunked(i int, rows int64) (out *arrow.Chunked, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.open[i].NextBatch(rows)
}

// checkEnd sees that no column has rows beyond its row group's count.
func (r *reader) checkEnd() error {
	for i, c := range r.columns {
		if c.field < 0 || r.open[i] == nil && r.own[i] == nil {
			continue
		}
		rest, err := r.decodeRows(i, 1)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.shape.path, err)
		}
		surplus := rest.Len()
		rest.Release()
		if surplus > 0 {
			return fmt.Errorf("column %s has more rows than its row group", c.shape.path)
		}
	}
	return nil
}

func release(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
	}
}
