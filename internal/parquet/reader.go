package parquet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/convert"
	"github.com/penstock/penstock/internal/parquet/page"
)

// streamBuffer is the size of the library's buffer for each stream.
const streamBuffer = 16 << 10

// Reader decodes one row group after another. Between calls of Next it holds the stored
// bytes and the decompressed pages of the open row group, and only a read ahead may be
// running. A batch is valid until the next call of Next or Release.
type Reader struct {
	ctx         context.Context //nolint:containedctx // a reader's interface has no context; a Reader lives for one read
	file        *File
	opts        ReadOptions
	schema      *arrow.Schema
	all         []column // the wanted columns
	columns     []column // of the open row group: those of all, the cached ones without a field
	source      *source
	account     *charged.Account
	scratch     *charged.Allocator        // of the open row group
	batchMemory *charged.Allocator        // of the open batch; nil between batches
	memory      *charged.DecoderAllocator // the library's; its buffers come out of batchMemory
	cleared     *pqarrow.FileReader       // decodes into zeroed memory
	plain       *pqarrow.FileReader       // decodes into memory with any content
	streams     bool                      // whether both read through streams

	kept     int64 // reserved for buffers that the library keeps across batches
	admitted int64 // of the last batch

	ahead   *fetch // of the next row group; nil: none
	fetches bool   // whether this reader started ahead

	next   int // index in opts.RowGroups of the next row group
	group  openRowGroup
	cached cachedColumns // of the open row group
	coming cachedColumns // of the next one, if they were looked for

	batch arrow.RecordBatch
	err   error
	refs  atomic.Int64
}

func newReader(ctx context.Context, f *File, columns []column, opts ReadOptions) (*Reader, error) {
	account := &charged.Account{Admit: opts.Admit, Part: opts.Part}
	scratch := account.NewGroup(opts.Scratch)
	r := &Reader{
		ctx: ctx, file: f, opts: opts, schema: convert.PlainSchema(opts.Schema), all: columns, columns: columns,
		account: account, scratch: scratch,
		source: &source{ctx: ctx, file: f, scratch: scratch, giveUp: opts.GiveUp},
		memory: charged.NewDecoderAllocator(opts.Memory),
	}
	r.refs.Store(1)
	r.streams = r.useStreams()
	var err error
	r.cleared, r.plain, err = r.library(f.meta)
	return r, err
}

// library returns the library's readers of the file as described by a footer.
func (r *Reader) library(meta *metadata.FileMetaData) (zeroed, plain *pqarrow.FileReader, err error) {
	props := parquet.NewReaderProperties(r.scratch)
	props.BufferedStreamEnabled = r.streams
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = page.MaxBytes, page.MaxBytes
	pages, err := file.NewParquetReader(r.source, file.WithMetadata(meta), file.WithReadProps(props))
	if err != nil {
		return nil, nil, damaged(r.file.Location(), "%w", err)
	}
	if zeroed, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, batch.Zeroed(r.memory)); err == nil {
		plain, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, r.memory)
	}
	if err != nil {
		return nil, nil, damaged(r.file.Location(), "%w", err)
	}
	return zeroed, plain, nil
}

// useStreams reports whether the library reads chunks through streams with a buffer each.
// Copying whole chunks is cheaper where the chunks of every row group are, on average, at
// most as large as that buffer.
func (r *Reader) useStreams() bool {
	return slices.ContainsFunc(r.opts.RowGroups, func(group int) bool {
		var sum, chunks int64
		for _, s := range r.file.spans(group, r.all) {
			sum, chunks = sum+s.length, chunks+1
		}
		return sum > streamBuffer*chunks
	})
}

// Schema returns the schema of the batches, whose own names the columns that are coded.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// RecordBatch returns the batch of the last successful Next.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.batch }

// Record is an older name of RecordBatch in the library's interface.
func (r *Reader) Record() arrow.RecordBatch { return r.batch }

// Err returns the error that ended the rows early, or nil.
func (r *Reader) Err() error { return r.err }

// Admitted returns the bytes that were admitted for the last batch. The caller returns
// them.
func (r *Reader) Admitted() int64 { return r.admitted }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference. The last one frees all memory except that of batches which
// are still retained.
func (r *Reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "a Parquet reader was released too often")
	if left == 0 {
		r.ReleaseBatch()
		r.stopFetch()
		r.closeGroup()
		r.coming.release()
	}
}

// ReleaseBatch releases the last batch before the next call of Next does.
func (r *Reader) ReleaseBatch() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

// Next decodes the next batch. It returns false at the end and on an error.
func (r *Reader) Next() bool {
	r.ReleaseBatch()
	if r.err != nil || r.refs.Load() <= 0 {
		return false
	}
	for r.group.left == 0 {
		if err := r.nextGroup(); err != nil {
			r.fail(err)
			return false
		}
		if r.group.columns == nil {
			return false
		}
	}
	if err := r.nextBatch(r.cached.limit(r.batchRows())); err != nil {
		r.fail(err)
		return false
	}
	return true
}

// batchRows returns the number of rows of the next batch.
func (r *Reader) batchRows() int64 {
	rows := min(r.group.left, r.group.maxRows)
	if r.opts.StepRows <= 0 || rows == r.group.left {
		return rows
	}
	beyond := (r.group.end - r.group.left + rows - r.opts.StepFrom) % r.opts.StepRows // of the last step's end
	if 0 < beyond && beyond < rows {
		return rows - beyond
	}
	return rows
}

// nextBatch decodes the next rows of the open row group.
func (r *Reader) nextBatch(rows int64) error {
	if err := r.startBatch(r.group.rowBytes * rows); err != nil {
		return err
	}
	arrays, err := r.decodeAll(rows)
	defer batch.ReleaseAll(arrays...)
	if err != nil {
		return err
	}
	r.group.left -= rows
	r.batch = array.NewRecordBatch(batch.FormOf(r.schema, arrays), arrays, rows)
	r.admitted = r.finishBatch()
	return nil
}

// startBatch reserves the memory of a batch whose estimated size is n bytes.
func (r *Reader) startBatch(n int64) error {
	now, err := r.account.NewBatch(r.opts.Memory, n)
	if err != nil {
		return err
	}
	r.batchMemory, r.admitted = now, 0
	r.memory.SetBatch(now)
	return nil
}

// finishBatch ends the open batch, if there is one, and returns the bytes that it takes.
// Buffers that the library keeps stay charged to the reader, and unused bytes are
// returned.
func (r *Reader) finishBatch() int64 {
	if r.batchMemory == nil {
		return 0
	}
	moved, kept := r.memory.Keep(r.batchMemory)
	used, admitted := r.batchMemory.Close()
	r.batchMemory = nil
	used -= moved
	spare := r.kept + admitted - kept - used
	invariant.Check(spare >= 0, "a batch of %s takes %d bytes more than were admitted", r.file.Location(), -spare)
	r.account.Release(spare)
	r.kept = kept
	return used
}

// fail ends the reader with an error that names the file and row group. An error of the
// library counts as damage, unless storage failed, memory was refused, or the context
// ended before.
func (r *Reader) fail(err error) {
	_, known := errors.AsType[*fault.Error](err)
	switch cause := r.source.failure(); {
	case cause != nil:
		err = cause
	case r.account.Refusal() != nil:
		err = r.account.Refusal()
	case r.ctx.Err() != nil:
		err = context.Cause(r.ctx)
	case !known:
		err = damaged(r.file.Location(), "%w", err)
	}
	r.stopFetch()
	r.closeColumns()
	r.account.Release(r.finishBatch())
	r.source.leave() // last: a stream that waits for memory that is given up gets all of it
	out := fault.As(fault.Op(err, "read row group %d of %s", r.group.index, r.file.Location()))
	r.err = out.In(out.Table, r.file.Location()).InRowGroup(r.group.index)
}

// withoutChecksum handles a column that has pages without a checksum.
func (r *Reader) withoutChecksum(c column) error {
	if r.opts.RequireChecksums {
		return fault.New(fault.Invalid, "column %s has pages without a checksum, which this server requires", c.conversion.Path).
			WithRemedy("rewrite the file with page checksums (Spark: parquet.page.write-checksum.enabled, PyArrow: write_page_checksum), or turn require_checksums off")
	}
	if r.opts.WithoutChecksum != nil {
		r.opts.WithoutChecksum(c.id)
	}
	return nil
}

// decodeAll decodes the next rows of all columns. The caller releases the arrays even if
// there is an error.
func (r *Reader) decodeAll(rows int64) ([]arrow.Array, error) {
	arrays := make([]arrow.Array, len(r.columns))
	err := r.eachColumn(func(i int) (err error) {
		arrays[i], err = r.decode(i, rows)
		return err
	})
	return arrays, err
}

// eachColumn calls a function for all columns, Parallel at a time.
func (r *Reader) eachColumn(do func(i int) error) error {
	if r.opts.Parallel <= 1 {
		for i := range r.columns {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	var group errgroup.Group
	group.SetLimit(r.opts.Parallel)
	for i := range r.columns {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// decode decodes the next rows of one column and fills its nulls with Numbers, if there
// are any.
func (r *Reader) decode(i int, rows int64) (arrow.Array, error) {
	if from := r.cached.of(i); from != nil {
		return r.read(from, rows)
	}
	if r.opts.Decoding != nil {
		defer r.opts.Decoding(i)()
	}
	out, err := r.decodeColumn(i, rows)
	if err != nil || r.columns[i].number == nil {
		return out, err
	}
	defer out.Release()
	return r.columns[i].number.fill(out, r.group.end-r.group.left, r.batchMemory)
}

func (r *Reader) decodeColumn(i int, rows int64) (out arrow.Array, err error) {
	defer charged.Refused(&err)
	c := r.columns[i]
	if c.field < 0 {
		return c.absent(int(rows), nil, 0, r.batchMemory)
	}
	decoded, err := r.decodeRows(i, rows)
	if err != nil {
		return nil, columnError(c, err)
	}
	defer decoded.Release()
	if got := decoded.Len(); int64(got) != rows {
		return nil, fmt.Errorf("column %s ends early: %d of %d rows are missing", c.conversion.Path, r.group.left-int64(got), r.group.left)
	}
	if c.coded && decoded.DataType().ID() == arrow.DICTIONARY {
		return c.conversion.Checked(decoded)
	}
	shaped, err := c.conversion.Apply(decoded, nil, r.batchMemory)
	if err != nil {
		return nil, err
	}
	defer shaped.Release()
	return array.MakeFromData(shaped), nil
}

// decodeRows decodes the next rows of one column in the file's type, fewer only at the
// end of the column. The caller releases the result.
func (r *Reader) decodeRows(i int, rows int64) (arrow.ArrayData, error) {
	if r.group.decoders[i] != nil {
		return r.runDecoder(i, rows)
	}
	c := r.columns[i]
	decoded, err := r.runLibrary(i, rows)
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
	r.memory.HandOut(out)
	if c.absent != nil {
		return convert.FillAbsent(c.absent, out, c.depth, r.batchMemory)
	}
	return convert.Unwrap(out, c.depth, r.batchMemory), nil
}

func (r *Reader) runDecoder(i int, rows int64) (out arrow.ArrayData, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.group.decoders[i].Read(int(rows), r.batchMemory)
}

func (r *Reader) runLibrary(i int, rows int64) (out *arrow.Chunked, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.group.columns[i].NextBatch(rows)
}

// checkEnd returns an error if a column has rows beyond the row count of its row group.
func (r *Reader) checkEnd() error {
	for i, c := range r.columns {
		if c.field < 0 || r.group.columns[i] == nil && r.group.decoders[i] == nil {
			continue
		}
		rest, err := r.decodeRows(i, 1)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.conversion.Path, err)
		}
		surplus := rest.Len()
		rest.Release()
		if surplus > 0 {
			return fmt.Errorf("column %s has more rows than its row group", c.conversion.Path)
		}
	}
	return nil
}
