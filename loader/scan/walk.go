package scan

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// walk decodes the files of a source in order. Once the decoder goroutine has started, only it may
// use the walk.
type walk struct {
	scanner         *Scanner
	source          plan.Source
	plan            *projection
	queue           *prefetchQueue
	group           *errgroup.Group // runs the openers
	pass            []int32         // indices of the rows of a batch that pass
	withoutChecksum *atomic.Bool    // set by a page without a checksum
	track           *trace.Track    // of the decoder and the opener; a unit is a batch. nil: nothing is recorded

	file    int // index (in the source) of the file to open next
	open    *fileReader
	pending chan opening           // the result of the running opener, which opens this file; nil: no opener runs
	await   func() *release.Handle // marks the stream as waiting for the opener
}

// opening is the result of an opener. The zero value is a file that is still to be opened.
type opening struct {
	file   *opened
	reader *fileReader // owns the file; nil: there was no memory to spare for a reader
	err    error
}

const (
	// While the stream starts, a batch has 1/startDivisor of the rows that the consumer takes at a
	// time. So at most half as many rows as the consumer needs are decoded too early: the rest of
	// the last batch that it needs, and one batch ahead.
	startDivisor = 4
	// minStartRows is the minimum number of rows of a batch while the stream starts.
	minStartRows = 4 << 10
)

// batchRows returns the maximum number of rows per batch, for a file that is opened now.
func (w *walk) batchRows() int {
	whole := max(w.scanner.options.BatchRows, w.source.BatchRows)
	if w.source.Starting == nil || !w.source.Starting() {
		return whole
	}
	return min(whole, max(minStartRows, (w.source.BatchRows+startDivisor-1)/startDivisor))
}

// run decodes all files into the queue.
func (w *walk) run(ctx context.Context) {
	defer w.close()
	for {
		it, err := w.next(ctx)
		if it.batch == nil {
			w.queue.finish(err)
			return
		}
		w.queue.push(it)
	}
}

// next returns the next batch with rows that pass, or the zero item at the end.
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
		switch {
		case errors.Is(err, errGivenUp):
			w.open.pause()
			if err = w.queue.awaitConsumer(ctx); err == nil {
				err = w.open.resume(ctx, w)
			}
		case errors.Is(err, chunkcache.ErrGone):
			err = w.open.readOn(ctx, w)
		}
		if err != nil {
			return item{}, w.failed(err, w.source.Files[file].File)
		}
		if it.batch != nil {
			it.file = file
			it.unit = w.track.Finish(nil, trace.Attribute{Key: trace.Table, Text: w.source.Table.Name}, trace.FileOf(w.source.Files[file].File.Location),
				trace.Attribute{Key: trace.Rows, Number: it.batch.NumRows()}, trace.Attribute{Key: trace.Bytes, Number: it.bytes})
			return it, nil
		}
	}
}

// failed adds the file's location to an error.
func (w *walk) failed(err error, f catalog.File) error {
	return located(w.scanner.forgetIfCorrupt(w.source.Table, f, err), w.source, f)
}

// nextFile opens the next file, and starts an opener for the one after it.
func (w *walk) nextFile(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	next := w.opened(ctx)
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

// opened returns the next file. It takes the file from the opener if there is one, and otherwise
// opens the file itself.
func (w *walk) opened(ctx context.Context) opening {
	defer waits.Begin(ctx, waits.Storage)()
	next := opening{}
	if w.pending != nil {
		next = w.awaitPending()
	}
	if next.file == nil && next.err == nil {
		next.file, next.err = w.scanner.open(ctx, w.source, w.plan, w.source.Files[w.file].File)
	}
	return next
}

// openAhead starts a goroutine, the opener, that opens a file ahead of the decoder and starts
// reading its first row group. Work that lacks memory is left to the decoder.
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

// awaitPending waits for the opener.
func (w *walk) awaitPending() opening {
	defer w.await().Release()
	next := <-w.pending
	w.pending, w.await = nil, nil
	return next
}

// readAhead makes the reader of a file ahead of the decoder, and starts a fetch. It returns
// nil on any error, including a lack of memory; the decoder then tries again.
func (w *walk) readAhead(ctx context.Context, o *opened, of plan.FileRange) *fileReader {
	r, err := newFileReader(ctx, w, o, of, w.queue.admitAhead)
	if err != nil {
		return nil
	}
	r.rows.Fetch() //nolint:contextcheck // a reader has its own context
	return r
}

// decode decodes the next batch of the open file. It returns the zero item if no row passes,
// and at the end of the file, which it closes.
func (w *walk) decode(ctx context.Context) (item, error) {
	if err := w.open.cache.admit(ctx, w.queue); err != nil {
		return item{}, err
	}
	b, admitted, err := w.open.next() //nolint:contextcheck // the file's reader has its own context
	if err != nil {
		return item{}, err
	}
	if b == nil {
		w.open.close()
		w.open = nil
		return item{}, nil
	}
	rows := b.NumRows()
	out, err := w.choose(ctx, b, w.open)
	b.Release()
	if err != nil {
		return item{}, w.undo(err, admitted)
	}
	if out != nil && w.drops() && int64(len(w.pass)) < rows {
		var both int64
		if out, both, err = w.take(ctx, out, admitted); err != nil {
			return item{}, w.undo(err, admitted)
		}
		admitted = both
	}
	w.open.rows.ReleaseBatch() // frees the memory of rows that do not pass before releasing their reservation
	actual, views := int64(0), int64(0)
	if out != nil {
		actual, views = w.sizes(out, rows) // without dictionaries: batches share them, and the reader has reserved them
	}
	if err := w.queue.adjust(ctx, admitted, actual); err != nil {
		if out != nil {
			out.Release()
		}
		return item{}, w.undo(err, admitted)
	}
	return item{batch: out, bytes: actual, views: views}, nil
}

// sizes returns the bytes of a batch that are charged to the reader (own), and the bytes that are
// in the memory of cached columns (views). rows is the number of decoded rows: a batch with fewer
// rows is a copy without views.
func (w *walk) sizes(out arrow.RecordBatch, rows int64) (own, views int64) {
	if w.open.cache == nil || out.NumRows() < rows {
		return batch.OwnSize(out), 0
	}
	var mine, others []arrow.Array
	for i, column := range out.Columns() {
		if i < len(w.plan.from) && w.open.cache.views[w.plan.from[i]] {
			others = append(others, column)
		} else {
			mine = append(mine, column)
		}
	}
	return batch.OwnArraySize(mine...), batch.OwnArraySize(others...)
}

// undo handles an error after which the last decoded rows have not become a batch, and returns the
// error. If the error is errGivenUp, undo goes back to the first of these rows, so that they are
// decoded again.
func (w *walk) undo(err error, admitted int64) error {
	if errors.Is(err, errGivenUp) {
		w.open.rows.ReleaseBatch()
		w.queue.release(admitted)
		w.open.row = w.open.first
	}
	return err
}

// take copies the rows of a batch that pass, and releases the batch. It returns the bytes that are
// then admitted for the batch and the copy together.
func (w *walk) take(ctx context.Context, whole arrow.RecordBatch, admitted int64) (arrow.RecordBatch, int64, error) {
	defer whole.Release()
	copied := admitted + w.open.cache.viewed()
	if err := w.queue.admitOrGiveUp(ctx, copied, copied); err != nil {
		return nil, 0, err
	}
	out, err := batch.Filter(whole, w.pass, w.scanner.options.Memory)
	return out, admitted + copied, err
}

// drops reports whether some rows of the open file may be dropped: by a filter, a sample or
// deletes.
func (w *walk) drops() bool {
	return w.source.Filter != nil || w.source.Sample != nil || w.open.deleted != nil
}

// choose returns a batch of a file with the requested columns, and sets pass to the indices
// of the rows that are not deleted, pass the filter and are in the sample. It returns nil if
// there are none.
func (w *walk) choose(ctx context.Context, b arrow.RecordBatch, of *fileReader) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(w.plan.from), len(w.plan.from)+1)
	for i, at := range w.plan.from {
		columns[i] = b.Column(at)
	}
	if w.source.Ordinals {
		numbers := w.ordinals(of.want.Ordinal+of.first-of.want.From, b.NumRows())
		defer numbers.Release()
		columns = append(columns, numbers)
	}
	out := array.NewRecordBatch(batch.FormOf(w.plan.output, columns), columns, b.NumRows())
	if !w.drops() {
		return out, nil
	}
	if err := w.keep(ctx, b, of); err != nil || len(w.pass) == 0 {
		out.Release()
		return nil, err
	}
	return out, nil
}

// keep sets pass to the indices of the rows of a batch that are not dropped. Deletes usually come last,
// since they cost most; they come first if conditions are computed, which deleted rows must not fail.
func (w *walk) keep(ctx context.Context, b arrow.RecordBatch, of *fileReader) (err error) {
	room := computing{ctx, w.queue}
	deletesFirst := w.source.Filter.Computes() || w.source.Sample.Computes()
	deletes := func() error {
		if of.deleted == nil {
			return nil
		}
		w.pass, err = of.deleted.Keep(w.pass, w.pass, of.first, b.NumRows(), func(id int) arrow.Array {
			return b.Column(slices.Index(w.plan.ids, id))
		})
		return err
	}
	if deletesFirst {
		w.pass = w.pass[:0]
		for row := range int32(b.NumRows()) {
			w.pass = append(w.pass, row)
		}
		if err = deletes(); err == nil {
			w.pass, err = w.source.Filter.Keep(b, w.pass, w.pass, room)
		}
	} else {
		w.pass, err = w.source.Filter.Evaluate(b, w.pass, room)
	}
	if err == nil {
		w.pass, err = w.source.Sample.Keep(w.pass, b, w.pass, of.want.File.OrderedAs(), of.first, room)
	}
	if err == nil && !deletesFirst {
		err = deletes()
	}
	return err
}

// ordinals returns the numbers of rows, counted from first.
func (w *walk) ordinals(first, rows int64) arrow.Array {
	numbers := array.NewInt64Builder(w.scanner.options.Memory)
	defer numbers.Release()
	numbers.Reserve(int(rows))
	for i := range rows {
		numbers.UnsafeAppend(first + i)
	}
	return numbers.NewArray()
}

// close closes the open file and the one that an opener has opened.
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
