package scan

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/loader/plan"
)

var _ array.RecordReader = (*Reader)(nil)

// Reader gives the rows of one source. A batch is valid until the next call of
// Next or Release on its reader; Retain it to keep it longer. Retain and
// Release may be called from any goroutine, the rest from one at a time.
type Reader struct {
	ctx     context.Context //nolint:containedctx // a reader's interface has no context; it lives for one read
	cancel  context.CancelFunc
	scanner *Scanner
	source  plan.Source
	plan    *projection
	group   errgroup.Group
	queue   *prefetchQueue // nil before the first Next, and Begin
	walk    *walk          // nil before the first Next, and Begin
	decodes bool           // the walk has begun to decode
	refs    atomic.Int64
	without atomic.Bool // some page had no checksum

	current item
	over    bool
	err     error
	files   *files
}

func newReader(ctx context.Context, s *Scanner, source plan.Source, p *projection) *Reader {
	r := &Reader{scanner: s, source: source, plan: p, files: &files{of: source.Files}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.refs.Store(1)
	return r
}

// Schema is that of the columns asked for.
func (r *Reader) Schema() *arrow.Schema { return r.plan.output }

// RecordBatch returns the batch of the last Next that was true.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.current.batch }

// Record is the library's older name of RecordBatch.
func (r *Reader) Record() arrow.RecordBatch { return r.current.batch }

// Err returns why the rows ended too early, or nil.
func (r *Reader) Err() error { return r.err }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release drops a reference. The last one cancels what is under way, waits
// until it is quiet, and gives all memory back.
func (r *Reader) Release() {
	left := r.refs.Add(-1)
	invariant.Check(left >= 0, "a scan was released too often")
	if left != 0 {
		return
	}
	r.cancel()
	_ = r.group.Wait() // its members leave their errors in the queue
	r.over = true
	if r.walk != nil && !r.decodes {
		r.walk.close()
	}
	if r.queue != nil {
		r.drop()
		r.queue.drain()
		invariant.Check(!r.queue.ended || r.queue.err != nil || r.queue.held.Held() == 0, "a scan that ended well holds %d bytes", r.queue.held.Held())
		r.queue.held.Release()
	}
}

// Next goes on to the next batch, which has at least one row. It returns false
// at the end and on an error.
func (r *Reader) Next() bool {
	r.drop()
	if r.over {
		return false
	}
	it, err := r.pop()
	if it.batch == nil {
		r.over = true
		if err != nil {
			r.err = r.named(err)
		}
		return false
	}
	r.current = it
	r.files.add(it.file, it.batch.NumRows())
	return true
}

// Begin has the first file opened, and the first of its row groups read as far as
// there is memory to spare, before the first Next asks for it.
func (r *Reader) Begin() {
	if r.walk != nil || r.over || len(r.source.Files) == 0 || r.scanner.options.Ahead <= 0 || r.prepare() != nil {
		return
	}
	r.walk.openAhead(r.ctx, 0)
}

// prepare makes what the decoder works with.
func (r *Reader) prepare() error {
	ahead := r.scanner.options.Ahead
	if ahead > 0 {
		ahead = max(ahead, r.source.Ahead)
	}
	queue, err := newPrefetchQueue(r.ctx, r.scanner.options.Budget, "the scan of "+subject(r.source), ahead)
	if err != nil {
		return err
	}
	queue.whole = r.source.BatchRows > 0
	r.queue = queue
	r.walk = &walk{scanner: r.scanner, source: r.source, plan: r.plan, queue: queue, group: &r.group, without: &r.without}
	r.group.SetLimit(2) // the decoder, and the opening of the file after
	return nil
}

// pop starts the decoder if need be, and waits for a batch.
func (r *Reader) pop() (item, error) {
	if r.walk == nil {
		if err := r.prepare(); err != nil {
			return item{}, err
		}
	}
	if !r.decodes {
		r.decodes = true
		r.group.Go(func() error {
			r.walk.run(r.ctx)
			return nil
		})
	}
	return r.queue.pop(r.ctx)
}

// named says what was read, where the error does not.
func (r *Reader) named(err error) error {
	if e := fault.As(err); e.Table != "" {
		return err
	}
	out := fault.As(fault.Op(err, "read %s", subject(r.source)))
	out.Table = r.source.Table.Name
	return out
}

func (r *Reader) drop() {
	if r.current.batch != nil {
		r.current.batch.Release()
		r.queue.giveBack(r.current.bytes)
		r.current = item{}
	}
}

// WithoutChecksum says whether a page that was read so far has no checksum, so
// that damage to it may go unseen. After the last Next it is so of all pages.
func (r *Reader) WithoutChecksum() bool { return r.without.Load() }

// Files returns what gives the location of the file that a row came from, counted
// from 0 over all rows that the reader gave; "" for a row that it did not give. It
// answers also after Release, and keeps nothing of the reader.
func (r *Reader) Files() func(row int64) string { return r.files.at }
