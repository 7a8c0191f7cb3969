package scan

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/loader/plan"
)

var _ array.RecordReader = (*Reader)(nil)

// Reader reads the rows of one source. A batch is valid until the next call of Next or
// Release on its reader; Retain it to keep it longer. Retain and Release may be called from
// any goroutine, the other methods from one at a time.
type Reader struct {
	ctx             context.Context //nolint:containedctx // a reader's interface has no context; it lives for one read
	cancel          context.CancelFunc
	decoding        context.Context //nolint:containedctx // ctx, for the decoder and the opener; set with walk
	scanner         *Scanner
	source          plan.Source
	plan            *projection
	group           errgroup.Group
	queue           *prefetchQueue // nil before the first Next or Begin
	walk            *walk          // nil before the first Next or Begin
	decodes         bool           // the decoder was started
	refs            atomic.Int64
	withoutChecksum atomic.Bool // a page without a checksum was read

	current item
	done    bool
	err     error
	files   *files
}

func newReader(ctx context.Context, s *Scanner, source plan.Source, p *projection) *Reader {
	r := &Reader{scanner: s, source: source, plan: p, files: &files{of: source.Files}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.refs.Store(1)
	return r
}

// Schema returns the schema of the requested columns.
func (r *Reader) Schema() *arrow.Schema { return r.plan.output }

// RecordBatch returns the batch of the last Next that was true.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.current.batch }

// Record is the older name of RecordBatch in arrow-go.
func (r *Reader) Record() arrow.RecordBatch { return r.current.batch }

// Err returns the error that ended the rows early, or nil.
func (r *Reader) Err() error { return r.err }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference. The last one cancels the goroutines, waits for them, and
// releases all memory.
func (r *Reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "more Releases of a scan than references")
	if left != 0 {
		return
	}
	r.cancel()
	_ = r.group.Wait() // errors are in the queue
	r.done = true
	if r.walk != nil && !r.decodes {
		r.walk.close()
	}
	if r.queue != nil {
		r.drop()
		r.queue.drain()
		invariant.Check(!r.queue.ended || r.queue.err != nil || r.queue.held.Held() == 0, "a scan without an error still holds %d bytes at its end", r.queue.held.Held())
		r.queue.held.Release()
	}
}

// Next advances to the next batch, which has at least one row. It returns false at the end
// and on an error.
func (r *Reader) Next() bool {
	r.drop()
	if r.done {
		return false
	}
	it, err := r.pop()
	if it.batch == nil {
		r.done = true
		if err != nil {
			r.err = r.named(err)
		}
		return false
	}
	r.current = it
	r.files.add(it.file, it.batch.NumRows())
	return true
}

// Begin starts to open the first file before the first Next. If there is memory to spare, it also
// starts to read the file's first row group.
func (r *Reader) Begin() {
	if r.walk != nil || r.done || len(r.source.Files) == 0 || r.scanner.options.Ahead <= 0 || r.prepare() != nil {
		return
	}
	r.walk.openAhead(r.decoding, 0)
}

// prepare makes the queue and the walk.
func (r *Reader) prepare() error {
	ahead := r.scanner.options.Ahead
	if ahead > 0 {
		ahead = max(ahead/int64(max(r.source.Lanes, 1)), r.source.Ahead, 1)
	}
	queue, err := newPrefetchQueue(r.ctx, r.scanner.options.Budget, "the scan of "+subject(r.source), ahead)
	if err != nil {
		return err
	}
	queue.whole, queue.starting = r.source.BatchRows > 0 || r.source.Lanes > 1, r.source.Starting
	r.queue = queue
	ctx, track := trace.Ahead(r.ctx, trace.Decode)
	r.decoding = ctx
	r.walk = &walk{track: track, scanner: r.scanner, source: r.source, plan: r.plan, queue: queue, group: &r.group, withoutChecksum: &r.withoutChecksum}
	r.group.SetLimit(2) // a decoder and an opener
	return nil
}

// pop starts the decoder if it does not run yet, and waits for a batch.
func (r *Reader) pop() (item, error) {
	if r.walk == nil {
		if err := r.prepare(); err != nil {
			return item{}, err
		}
	}
	if !r.decodes {
		r.decodes = true
		r.group.Go(func() error {
			r.walk.run(r.decoding)
			return nil
		})
	}
	it, err := r.queue.pop(r.ctx)
	if it.unit != nil {
		trace.Of(r.ctx).Use(it.unit)
		it.unit = nil
	}
	return it, err
}

// named adds the table to an error that does not name it.
func (r *Reader) named(err error) error {
	if e := fault.As(err); e.Table != "" {
		return err
	}
	out := fault.As(fault.Op(err, "read %s", subject(r.source)))
	out.Table = r.source.Table.Name
	return out
}

// drop releases the current batch.
func (r *Reader) drop() {
	if r.current.batch != nil {
		r.current.batch.Release()
		r.queue.release(r.current.bytes)
		r.current = item{}
	}
}

// WithoutChecksum reports whether any page read so far had no checksum, so that corruption of the
// page may be undetected. The result is final once Next has returned false.
func (r *Reader) WithoutChecksum() bool { return r.withoutChecksum.Load() }

// Files returns a function that returns the location of a row's file. Rows are counted from
// 0 over all batches that the reader returned; for any other row it returns "". It works
// after Release, and does not keep the reader's memory.
func (r *Reader) Files() func(row int64) string { return r.files.at }
