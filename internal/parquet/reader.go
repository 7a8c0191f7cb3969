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

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// streamBuffer is the size of the buffer that the decoder gives a stream.
const streamBuffer = 16 << 10

// Reader decodes row group after row group. Between calls of Next it holds the
// stored bytes and the decompressed pages of the open row group, and nothing runs.
// A batch is valid until the next call of Next or Release.
type Reader struct {
	ctx     context.Context //nolint:containedctx // a reader's interface has no context; it lives for one read
	file    *File
	opts    ReadOptions
	schema  *arrow.Schema
	columns []column
	source  *source
	account *account
	scratch *allowance          // of the open row group
	now     *allowance          // of the open batch; nil between batches
	memory  *tracked            // of the decoder, within now
	cleared *pqarrow.FileReader // decodes into zeroed memory
	plain   *pqarrow.FileReader // decodes into memory of any content
	streams bool                // both read through streams

	rewritten                map[int]rewritten   // chunks of the open row group, by leaf, that the library cannot decode
	groupCleared, groupPlain *pqarrow.FileReader // cleared and plain, as the open row group is read

	heap     int64 // asked for what the library makes by itself for the open row group
	kept     int64 // asked for what the decoder holds on to from batch to batch
	admitted int64 // of the last batch

	ahead *fetch // of the row group that is opened next; nil: none

	next  int                     // of opts.RowGroups, the one to open
	group int                     // the open one, of the file
	left  int64                   // its rows that are not yet out
	run   int64                   // the most of its rows in a batch
	bytes int64                   // an estimate of a row in memory
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

func newReader(ctx context.Context, f *File, columns []column, opts ReadOptions) (*Reader, error) {
	account := &account{admit: opts.Admit, part: opts.Part}
	scratch := &allowance{under: opts.Scratch, account: account}
	r := &Reader{
		ctx: ctx, file: f, opts: opts, schema: plainSchema(opts.Schema), columns: columns,
		account: account, scratch: scratch,
		source: &source{ctx: ctx, file: f, scratch: scratch},
		memory: track(opts.Memory),
	}
	r.refs.Store(1)
	r.streams = r.streamed()
	var err error
	r.cleared, r.plain, err = r.library(f.meta)
	return r, err
}

// library returns the library's readers of the file, as a footer describes it.
func (r *Reader) library(meta *metadata.FileMetaData) (zeroed, plain *pqarrow.FileReader, err error) {
	props := parquet.NewReaderProperties(r.scratch)
	props.BufferedStreamEnabled = r.streams
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = mostPage, mostPage
	pages, err := file.NewParquetReader(r.source, file.WithMetadata(meta), file.WithReadProps(props))
	if err != nil {
		return nil, nil, damaged(r.file.Location(), "%w", err)
	}
	if zeroed, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, cleared{r.memory}); err != nil {
		return nil, nil, damaged(r.file.Location(), "%w", err)
	}
	if plain, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, r.memory); err != nil {
		return nil, nil, damaged(r.file.Location(), "%w", err)
	}
	return zeroed, plain, nil
}

// streamed chooses how the decoder gets at the source's memory: through a stream
// with a buffer of its own, or by copying each chunk whole, which is cheaper where
// no row group has chunks larger than that buffer.
func (r *Reader) streamed() bool {
	return slices.ContainsFunc(r.opts.RowGroups, func(group int) bool {
		var sum, chunks int64
		for _, s := range r.file.spans(group, r.columns) {
			sum, chunks = sum+s.length, chunks+1
		}
		return sum > streamBuffer*chunks
	})
}

// Schema is that of the batches.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// RecordBatch returns the batch of the last Next that was true.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.batch }

// Record is the library's older name of RecordBatch.
func (r *Reader) Record() arrow.RecordBatch { return r.batch }

// Err returns why the rows ended too early, or nil.
func (r *Reader) Err() error { return r.err }

// Admitted returns the bytes that were admitted for the last batch, which are the
// caller's to give back.
func (r *Reader) Admitted() int64 { return r.admitted }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference. The last one gives all memory back but the batch's.
func (r *Reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "a Parquet reader was released too often")
	if left == 0 {
		r.Drop()
		r.dropFetch()
		r.closeGroup()
	}
}

// Drop lets go of the last batch, as the next Next would.
func (r *Reader) Drop() {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
}

// Next decodes the next batch. It returns false at the end and on an error.
func (r *Reader) Next() bool {
	r.Drop()
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
	if err := r.nextBatch(min(r.left, r.run)); err != nil {
		r.fail(err)
		return false
	}
	return true
}

// nextBatch decodes the next rows of the open row group.
func (r *Reader) nextBatch(rows int64) error {
	if err := r.begin(r.bytes * rows); err != nil {
		return err
	}
	arrays, err := r.decodeAll(rows)
	defer release(arrays)
	if err != nil {
		return err
	}
	r.left -= rows
	r.batch = array.NewRecordBatch(r.schema, arrays, rows)
	r.admitted = r.settle()
	return nil
}

// begin opens the account of a batch that is likely to take n bytes.
func (r *Reader) begin(n int64) error {
	now, err := r.account.begin(r.opts.Memory, n)
	if err != nil {
		return err
	}
	r.now, r.admitted = now, 0
	r.memory.begin(now)
	return nil
}

// settle ends the account of the open batch, if there is one, and returns what the
// batch takes. What the decoder holds on to stays the reader's, and what was asked
// for in vain is given back.
func (r *Reader) settle() int64 {
	if r.now == nil {
		return 0
	}
	moved, kept := r.memory.keep(r.now)
	used, admitted := r.now.close()
	r.now = nil
	used -= moved
	spare := r.kept + admitted - kept - used
	invariant.Check(spare >= 0, "a batch of %s takes %d bytes more than were admitted", r.file.Location(), -spare)
	r.account.giveBack(spare)
	r.kept = kept
	return used
}

// fail ends the reader with an error that names file and row group. What the
// decoder says is damage, unless storage failed or the context ended before.
func (r *Reader) fail(err error) {
	_, known := errors.AsType[*fault.Error](err)
	switch cause := r.source.failure(); {
	case cause != nil:
		err = cause
	case r.account.refusal() != nil:
		err = r.account.refusal()
	case r.ctx.Err() != nil:
		err = context.Cause(r.ctx)
	case !known:
		err = damaged(r.file.Location(), "%w", err)
	}
	r.dropFetch()
	r.closeGroup()
	r.account.giveBack(r.settle())
	out := fault.As(fault.Op(err, "read row group %d of %s", r.group, r.file.Location()))
	r.err = out.In(out.Table, r.file.Location()).InRowGroup(r.group)
}

// withoutChecksum is called for a column of which pages have no checksum.
func (r *Reader) withoutChecksum(c column) error {
	if r.opts.RequireChecksums {
		return fault.New(fault.Invalid, "column %s has pages without a checksum, which this server requires", c.shape.path).
			WithRemedy("rewrite the file with page checksums (Spark: parquet.page.write-checksum.enabled, PyArrow: write_page_checksum), or turn require_checksums off")
	}
	if r.opts.WithoutChecksum != nil {
		r.opts.WithoutChecksum()
	}
	return nil
}

// decodeAll decodes the next rows of all columns, for the caller to release
// also on an error.
func (r *Reader) decodeAll(rows int64) ([]arrow.Array, error) {
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

// decode decodes the next rows of one column, with numbers where it has such.
func (r *Reader) decode(i int, rows int64) (arrow.Array, error) {
	out, err := r.decodeColumn(i, rows)
	if err != nil || r.columns[i].number == nil {
		return out, err
	}
	defer out.Release()
	group := r.file.groups[r.group]
	return r.columns[i].number.over(out, group.FirstRow+group.Rows-r.left, r.now)
}

func (r *Reader) decodeColumn(i int, rows int64) (out arrow.Array, err error) {
	defer refused(&err)
	c := r.columns[i]
	if c.field < 0 {
		return c.absent(int(rows), nil, 0, r.now)
	}
	decoded, err := r.decodeRows(i, rows)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.shape.path, err)
	}
	defer decoded.Release()
	if got := decoded.Len(); int64(got) != rows {
		return nil, fmt.Errorf("column %s ends early: %d of %d rows are missing", c.shape.path, r.left-int64(got), r.left)
	}
	shaped, err := c.shape.apply(decoded, nil, r.now)
	if err != nil {
		return nil, err
	}
	defer shaped.Release()
	return array.MakeFromData(shaped), nil
}

// decodeRows decodes the next rows of one column as the file has them, for the
// caller to release; fewer only at the column's end.
func (r *Reader) decodeRows(i int, rows int64) (arrow.ArrayData, error) {
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
	if c.absent != nil {
		return c.fill(out, r.now)
	}
	return unwrap(out, c.depth, r.now), nil
}

func (r *Reader) decodeOwn(i int, rows int64) (out arrow.ArrayData, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.own[i].read(int(rows), r.now)
}

func (r *Reader) decodeChunked(i int, rows int64) (out *arrow.Chunked, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	return r.open[i].NextBatch(rows)
}

// checkEnd sees that no column has rows beyond its row group's count.
func (r *Reader) checkEnd() error {
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
