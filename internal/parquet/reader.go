package parquet

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Reader decodes one row group after another. Between calls of Next it holds the stored
// bytes and the decompressed pages of the open row group, and only a read ahead may be
// running. A batch is valid until the next call of Next or Release.
type Reader struct {
	*reading
	schema *arrow.Schema
	group  rowGroup
	ahead  ahead
	next   int // index in opts.RowGroups of the next row group

	batch    arrow.RecordBatch
	admitted int64 // of the last batch
	err      error
	refs     atomic.Int64
}

// Schema returns the schema of the stream. It has the types of the values; only a batch's own
// schema shows which of its columns are coded.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// RecordBatch returns the batch of the last successful Next.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.batch }

// Record is an older name of RecordBatch in the library's interface.
func (r *Reader) Record() arrow.RecordBatch { return r.batch }

// Err returns the error that ended the rows early, or nil.
func (r *Reader) Err() error { return r.err }

// Admitted returns the number of bytes that were admitted for the last batch. The caller gives them
// back when the batch is freed.
func (r *Reader) Admitted() int64 { return r.admitted }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference. The last call frees all memory except that of batches that are still
// retained.
func (r *Reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "a Parquet reader was released too often")
	if left == 0 {
		r.ReleaseBatch()
		r.ahead.stop()
		r.group.release()
		r.ahead.coming.release()
	}
}

// ReleaseBatch releases the last batch early: otherwise the next call of Next releases it.
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
	if err := r.nextBatch(r.group.cached.limit(r.batchRows())); err != nil {
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
	beyond := (r.group.end - r.group.left + rows - r.opts.StepFrom) % r.opts.StepRows // rows after the end of the batch's last complete step
	if 0 < beyond && beyond < rows {
		return rows - beyond
	}
	return rows
}

// nextGroup closes the open row group and opens the next one. group.columns is nil after the last
// one.
func (r *Reader) nextGroup() error {
	if err := r.ctx.Err(); err != nil {
		return context.Cause(r.ctx)
	}
	r.admitted = 0
	if err := r.startBatch(0); err != nil { // checkEnd may decode surplus rows
		return err
	}
	if err := r.group.checkEnd(); err != nil {
		return err
	}
	r.group.release()
	if r.next < len(r.opts.RowGroups) {
		if err := r.openGroup(r.opts.RowGroups[r.next]); err != nil {
			return err
		}
		r.next++
		r.Fetch()
	}
	r.account.Release(r.finishBatch())
	return nil
}

// openGroup loads a row group, unless it was read ahead, and opens its columns. The stored bytes, and
// then the memory to decode the pages, are reserved first.
func (r *Reader) openGroup(index int) error {
	from, to := r.wanted(index)
	r.group.enter(index, from, to)
	if from == to {
		return nil
	}
	r.group.cached = r.ahead.takeCached(index)
	r.group.cached.skip(from)
	columns := r.group.cached.without(r.all)
	took, err := r.ahead.take(index)
	if err != nil {
		return err
	}
	if !took {
		if err := r.load(index, columns); err != nil {
			return err
		}
	}
	return r.group.open(columns, from, to)
}

// nextBatch decodes the next rows of the open row group.
func (r *Reader) nextBatch(rows int64) error {
	r.admitted = 0
	if err := r.startBatch(r.group.rowBytes * rows); err != nil {
		return err
	}
	arrays, err := r.group.decode(rows)
	defer batch.ReleaseAll(arrays...)
	if err != nil {
		return err
	}
	r.batch = array.NewRecordBatch(batch.FormOf(r.schema, arrays), arrays, rows)
	r.admitted = r.finishBatch()
	return nil
}

// fail ends the reader with an error that names the file and row group. An error of the library
// counts as damage, unless storage failed, memory was refused, or the context had ended.
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
	r.ahead.stop()
	r.group.close()
	r.account.Release(r.finishBatch())
	r.source.leave() // last, so that a stream that waits for memory that is given up gets all of it
	out := fault.As(fault.Op(err, "read row group %d of %s", r.group.index, r.file.Location()))
	r.err = out.In(out.Table, r.file.Location()).InRowGroup(r.group.index)
}

// Fetch starts to read the stored bytes of the next row group, if there is memory for
// them. It may be called after Read and between calls of Next.
func (r *Reader) Fetch() {
	if r.opts.Ahead != nil && r.ahead.fetch == nil && r.next < len(r.opts.RowGroups) && r.err == nil {
		r.ahead.start(r.opts.RowGroups[r.next])
	}
}

// FromCache reports whether a column of the open row group is cached, by its index in
// ReadOptions.Fields.
func (r *Reader) FromCache(column int) bool { return r.group.cached.of(column) != nil }

// IsView reports whether a column of the last batch, by its index in ReadOptions.Fields, uses the
// memory of a cached column.
func (r *Reader) IsView(column int) bool {
	from := r.group.cached.of(column)
	return from != nil && !from.Copied()
}
