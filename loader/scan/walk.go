package scan

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// walk goes through the files of a source in order. It belongs to the
// goroutine that decodes.
type walk struct {
	scanner *Scanner
	source  plan.Source
	plan    *projection
	queue   *prefetchQueue
	group   *errgroup.Group // runs the opening of the next file
	pass    []int32         // rows of a batch that pass the filter
	without *atomic.Bool    // set once a page had no checksum

	file    int // of the source: the one to open next
	open    *fileReader
	pending chan opening           // of file; nil: not begun
	await   func() *release.Handle // marks the stream as waiting for pending
}

// opening is the outcome of opening a file ahead.
type opening struct {
	file   *opened
	reader *fileReader // of file, which it has taken over; nil: there was no memory to spare
	err    error
}

// run decodes everything into the queue.
func (w *walk) run(ctx context.Context) {
	defer w.close()
	for {
		it, err := w.next(ctx)
		if it.batch == nil {
			w.queue.end(err)
			return
		}
		w.queue.push(it)
	}
}

// next returns the next batch with rows that pass; none is the end.
func (w *walk) next(ctx context.Context) (item, error) {
	for {
		if w.open == nil {
			if w.file == len(w.source.Files) {
				return item{}, nil
			}
			if err := w.nextFile(ctx); err != nil {
				return item{}, w.failed(err, w.source.Files[w.file].File)
			}
			w.file++
		}
		file := w.file - 1
		it, err := w.decode(ctx)
		if err != nil {
			return item{}, w.failed(err, w.source.Files[file].File)
		}
		if it.batch != nil {
			it.file = file
			return it, nil
		}
	}
}

// failed is an error about one of the files, with what is known of it here.
func (w *walk) failed(err error, f catalog.File) error {
	return located(w.scanner.orForget(w.source.Table, f, err), w.source, f)
}

// nextFile opens the next file, and lets the one after it be opened meanwhile.
func (w *walk) nextFile(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	next := opening{}
	if w.pending != nil {
		next = w.awaitPending()
	}
	if next.file == nil && next.err == nil {
		next.file, next.err = w.scanner.open(ctx, w.source, w.plan, w.source.Files[w.file].File)
	}
	if next.err != nil {
		return next.err
	}
	if next.reader == nil {
		var err error
		if next.reader, err = newFileReader(ctx, w, next.file, w.source.Files[w.file], w.queue.admit); err != nil {
			next.file.close()
			return err
		}
	}
	w.open = next.reader
	if after := w.file + 1; after < len(w.source.Files) && w.scanner.options.Ahead > 0 {
		w.openAhead(ctx, after)
	}
	return nil
}

// openAhead opens a file, and begins to read the first of its row groups, before its
// turn has come. What there is no memory for is done when it has.
func (w *walk) openAhead(ctx context.Context, file int) {
	pending := make(chan opening, 1)
	ahead, await := budget.Prefetch(ctx)
	w.pending, w.await = pending, await
	w.group.Go(func() error {
		next := opening{}
		next.file, next.err = w.scanner.open(ahead, w.source, w.plan, w.source.Files[file].File)
		switch {
		case next.err == nil:
			next.reader = w.readAhead(ctx, next.file, w.source.Files[file])
		case fault.KindOf(next.err) == fault.Exhausted:
			next.err = nil
		}
		pending <- next
		return nil
	})
}

// awaitPending waits for what openAhead began.
func (w *walk) awaitPending() opening {
	defer w.await().Release()
	next := <-w.pending
	w.pending, w.await = nil, nil
	return next
}

// readAhead makes a reader of a file whose turn has not come, and lets it begin; nil if
// that is to be done when its turn has come, as there is no memory to spare, or because
// something is wrong.
func (w *walk) readAhead(ctx context.Context, o *opened, of plan.FileRange) *fileReader {
	r, err := newFileReader(ctx, w, o, of, w.queue.admitAhead)
	if err != nil {
		return nil
	}
	r.rows.Fetch() //nolint:contextcheck // a reader has the context that it was made with
	return r
}

// decode returns the next batch of the open file. It returns none where no row
// passes, and closes the file at its end.
func (w *walk) decode(ctx context.Context) (item, error) {
	b, admitted, err := w.open.next() //nolint:contextcheck // as above
	if err != nil {
		return item{}, err
	}
	if b == nil {
		w.open.close()
		w.open = nil
		return item{}, nil
	}
	rows := b.NumRows()
	out, err := w.choose(b, w.open)
	b.Release()
	if err != nil {
		return item{}, err
	}
	if out != nil && w.drops() && int64(len(w.pass)) < rows {
		if out, admitted, err = w.take(ctx, out, admitted); err != nil {
			return item{}, err
		}
	}
	w.open.rows.Drop() // what was not chosen is free before it is given back
	actual := int64(0)
	if out != nil {
		actual = batch.Size(out)
	}
	if err := w.queue.settle(ctx, admitted, actual); err != nil {
		if out != nil {
			out.Release()
		}
		return item{}, err
	}
	return item{batch: out, bytes: actual}, nil
}

// take copies the rows of a batch that pass, and returns the bytes that are then
// admitted for both. It takes the batch over.
func (w *walk) take(ctx context.Context, whole arrow.RecordBatch, admitted int64) (arrow.RecordBatch, int64, error) {
	defer whole.Release()
	if err := w.queue.admit(ctx, admitted, admitted); err != nil {
		return nil, 0, err
	}
	out, err := batch.Filter(whole, w.pass, w.scanner.options.Memory)
	return out, 2 * admitted, err
}

// drops says whether rows of the open file may be left out.
func (w *walk) drops() bool {
	return w.source.Filter != nil || w.source.Sample != nil || w.open.deleted != nil
}

// choose returns a batch of a file with the columns that were asked for; nil if each of
// its rows is deleted, does not pass the filter, or is not kept by the sample. The
// others are in pass.
func (w *walk) choose(b arrow.RecordBatch, of *fileReader) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(w.plan.from), len(w.plan.from)+1)
	for i, at := range w.plan.from {
		columns[i] = b.Column(at)
	}
	if w.source.Ordinals {
		numbers := w.ordinals(of.want.Ordinal+of.first-of.want.From, b.NumRows())
		defer numbers.Release()
		columns = append(columns, numbers)
	}
	out := array.NewRecordBatch(w.plan.output, columns, b.NumRows())
	if !w.drops() {
		return out, nil
	}
	var err error
	if w.pass, err = w.source.Filter.Evaluate(b, w.pass); err == nil {
		w.pass, err = w.source.Sample.Keep(w.pass, b, w.pass, of.want.File.Location, of.first)
	}
	if err == nil && of.deleted != nil {
		w.pass, err = of.deleted.Keep(w.pass, w.pass, of.first, b.NumRows(), func(id int) arrow.Array {
			return b.Column(slices.Index(w.plan.ids, id))
		})
	}
	if err != nil || len(w.pass) == 0 {
		out.Release()
		return nil, err
	}
	return out, nil
}

// ordinals numbers rows from first on.
func (w *walk) ordinals(first, rows int64) arrow.Array {
	numbers := array.NewInt64Builder(w.scanner.options.Memory)
	defer numbers.Release()
	numbers.Reserve(int(rows))
	for i := range rows {
		numbers.UnsafeAppend(first + i)
	}
	return numbers.NewArray()
}

// close gives back what is open, when nothing more will be asked for.
func (w *walk) close() {
	if w.open != nil {
		w.open.close()
		w.open = nil
	}
	if w.pending != nil {
		switch next := w.awaitPending(); {
		case next.reader != nil:
			next.reader.close()
		case next.file != nil:
			next.file.close()
		}
	}
}
