package scan

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/plan"
)

// fileReader decodes the range of one file, row group by row group.
type fileReader struct {
	*opened
	scanner *Scanner
	plan    *projection
	queue   *prefetchQueue
	want    plan.FileRange
	shared  *expectedScan // nil: the file's bytes are not shared
	checks  []*checker
	cache   *fileCache // nil: the file's columns are not cached

	rows    *parquet.Reader
	groups  []int // numbers of the row groups to decode
	current int   // index in groups; -1 before the first
	row     int64 // row in the file of the next batch's first row
	first   int64 // row in the file of the last returned batch's first row
	end     int64 // row in the file after the last row to read from the open row group
}

// newFileReader makes a reader of a file. It takes ownership of the file unless it fails. It checks
// that the file's columns can be read with the table's types, even if statistics rule out all row
// groups. Memory for reading statistics is reserved with admit.
func newFileReader(ctx context.Context, w *walk, o *opened, want plan.FileRange, admit admission) (*fileReader, error) {
	r := &fileReader{opened: o, scanner: w.scanner, plan: w.plan, queue: w.queue, want: want, checks: checkers(w.source.Table, want.File, w.plan), current: -1}
	r.shared, _ = w.source.Shared.(*expectedScan)
	r.cache = newFileCache(w, o, want)
	r.groups = []int{}
	for i, g := range o.RowGroups() {
		if max(g.FirstRow, want.From) >= min(g.FirstRow+g.Rows, want.To) || !mayMatch(w.source, o, i) {
			continue
		}
		may, err := w.mayPass(ctx, o, i, admit)
		if err != nil {
			return nil, err
		}
		if may {
			r.groups = append(r.groups, i)
		}
	}
	return r, r.openRows(ctx, w)
}

// openRows opens a reader of the range's rows that are not decoded yet.
func (r *fileReader) openRows(ctx context.Context, w *walk) error {
	groups := r.groups
	if r.current >= 0 {
		groups = groups[r.current:]
		if r.row == r.end {
			groups = groups[1:]
		}
	}
	begun := w.source.Begun + r.want.Ordinal - w.source.Files[0].Ordinal // rows from the start of the source's first step to the start of this range
	rows, err := r.Read(ctx, parquet.ReadOptions{
		Fields: w.plan.ids, Schema: w.plan.schema, RowGroups: groups, From: max(r.want.From, r.row), To: r.want.To, NullIfAbsent: true, Constants: r.constants,
		Coded: w.coded(), MinRepeats: w.scanner.options.MinRepeats, Around: r.around, Numbers: r.numbers, Defaults: w.plan.defaults,
		BatchRows: w.batchRows(), StepRows: w.source.StepRows, StepFrom: r.want.From - begun, Cores: w.scanner.options.Cores, RunBytes: w.queue.share(),
		RequireChecksums: w.scanner.options.RequireChecksums, WithoutChecksum: func(field int) { r.lacksChecksum(w, field) },
		Asked: func(bytes int64) {
			if w.source.Asked != nil {
				w.source.Asked(r.want.File.Location, bytes)
			}
		},
		Cached: r.cache.find(ctx, w, r.RowGroups(), max(r.want.From, r.row), r.want.To), Decoding: r.cache.timed(),
		Memory: w.scanner.options.Memory, Scratch: w.scanner.options.Scratch,
		Admit: func(n, batch int64) error {
			if n < 0 {
				w.queue.release(-n)
				return nil
			}
			return w.queue.admitOrGiveUp(ctx, n, batch)
		},
		Shared: r.shared.chunks(),
		GiveUp: w.queue.giveUp,
		Keep: func(n int64, drop func()) parquet.Spare {
			return w.scanner.spares.add(w.queue.held.Split(n), drop)
		},
		Part: func(n int64) func() { return w.queue.held.Split(n).Release },
		Ahead: func(n int64, drop func()) (parquet.Spare, bool) {
			if n > w.scanner.options.ReadAhead {
				return nil, false
			}
			return w.scanner.spares.take(ctx, n, drop)
		},
	})
	if err == nil {
		r.rows = rows
	}
	return err
}

// coded returns the ids of the columns that may be returned as codes.
func (w *walk) coded() []int {
	if w.scanner.options.MinRepeats == NoCodes {
		return nil
	}
	return w.plan.coded
}

// pause releases the memory of the open row group.
func (r *fileReader) pause() {
	r.cache.abandon()
	r.rows.Release()
	r.rows = nil
}

// resume opens the reader of rows again, starting at the next row.
func (r *fileReader) resume(ctx context.Context, w *walk) error {
	if err := r.openRows(ctx, w); err != nil {
		return r.inGroup(err)
	}
	return nil
}

// readOn reads the rest of the open row group from the file after the cache has dropped one of the
// group's columns. It does not look for the column in the cache again: otherwise, the cache could
// drop the column each time, and the reader would never finish.
func (r *fileReader) readOn(ctx context.Context, w *walk) error {
	r.pause()
	r.cache.lost = r.groups[r.current] + 1
	return r.resume(ctx, w)
}

// next returns the next rows of the range and the bytes admitted for them, or nil at the
// end. The caller releases the batch.
func (r *fileReader) next() (arrow.RecordBatch, int64, error) {
	if r.row == r.end {
		more, err := r.nextGroup()
		if !more || err != nil {
			return nil, 0, err
		}
	}
	b, bytes, err := r.decode()
	if err == nil && r.row == r.end && r.current+1 == len(r.groups) {
		// A scan may stop at the last row without asking for more. So finish here: then such a scan
		// has filled the cache, too.
		if err = r.finish(); err != nil {
			b.Release()
			r.queue.release(bytes)
			r.row = r.first
			return nil, 0, r.inGroup(err)
		}
	}
	return b, bytes, r.inGroup(err)
}

// nextGroup advances to the next row group that has rows, and reports whether there is one.
func (r *fileReader) nextGroup() (bool, error) {
	for r.row == r.end {
		if r.current+1 == len(r.groups) {
			r.shared.pass(r.want.File.Location, r.want.To)
			return false, r.finish()
		}
		r.current++
		r.cache.nextGroup()
		group := r.RowGroups()[r.groups[r.current]]
		r.shared.pass(r.want.File.Location, group.FirstRow)
		r.row, r.end = max(group.FirstRow, r.want.From), min(group.FirstRow+group.Rows, r.want.To)
	}
	return true, nil
}

// finish reads past the last row, where the decoder checks for excess rows.
func (r *fileReader) finish() error {
	if r.rows.Next() {
		return fault.New(fault.Corrupt, "the file has more rows than its footer counts")
	}
	if err := r.rows.Err(); err != nil {
		return err
	}
	r.cache.nextGroup()
	r.cache.commit()
	return nil
}

// decode decodes one batch of the open row group.
func (r *fileReader) decode() (arrow.RecordBatch, int64, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, 0, err
		}
		return nil, 0, fault.New(fault.Corrupt, "the file ends %d rows early", r.end-r.row)
	}
	b, admitted := r.cache.exchange(r)
	defer b.Release()
	r.scanner.decoded.Add(b.NumRows())
	for _, c := range r.checks {
		if err := c.check(b.Column(c.at), r.row); err != nil {
			return nil, 0, err
		}
	}
	r.first = r.row
	r.row += b.NumRows()
	b.Retain()
	return b, admitted, nil
}

// lacksChecksum records that a page has no checksum.
func (r *fileReader) lacksChecksum(w *walk, field int) {
	w.withoutChecksum.Store(true)
	r.cache.lacksChecksum(field)
}

// inGroup adds the row group to an error.
func (r *fileReader) inGroup(err error) error {
	if err == nil {
		return nil
	}
	out := *fault.As(err)
	if out.Err == nil {
		out.Err = err
	}
	return out.InRowGroup(r.groups[r.current])
}

// close releases the file and its reader. Stored bytes stay reserved while an abandoned
// read may write to them.
func (r *fileReader) close() {
	r.cache.abandon()
	if r.rows != nil { // otherwise it was paused
		r.rows.Release()
	}
	r.opened.close()
}
