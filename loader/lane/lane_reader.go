package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// laneReader reads one lane, range after range.
type laneReader struct {
	Lane
	open     Open
	at       Position
	key      []int             // of requests, see Options.Request
	grouped  bool              // whether to record in selections where requests begin
	budget   *budget.Budget    // for the memory of begins
	consumed int64             // how many rows, or requests, the lane has contributed or skipped since Start
	reader   Sequence          // the sequence of range at.Range; nil if it is not open
	begins   *requestBegins    // the same as reader if lanes contribute requests; otherwise nil
	batch    arrow.RecordBatch // the current batch of reader, borrowed; nil if there is none
	used     int               // how many rows of batch were contributed or skipped
	marks    Marks
}

func newLaneReader(lane Lane, options Options) *laneReader {
	l := &laneReader{Lane: lane, open: options.Open, key: options.Request, grouped: options.Grouped != nil, budget: options.Budget, at: lane.Start}
	l.advance()
	return l
}

// mayHaveMore reports whether the lane may have more rows.
func (l *laneReader) mayHaveMore() bool { return l.at.Range < len(l.Ranges) }

// take adds n rows, or requests, of the lane to a selection. It adds fewer only at the lane's end.
// It returns how many it added.
func (l *laneReader) take(ctx context.Context, n int64, s *selection) (rowCount, error) {
	if l.key != nil {
		return l.takeRequests(ctx, n, s, func(rows int) error {
			s.add(l.batch, l.used, rows)
			if !l.grouped {
				return nil
			}
			return s.divide(ctx, l.begins.continues[l.used:l.used+rows])
		})
	}
	rows, err := l.selectRows(ctx, n, s)
	return rowCount{rows: rows, counted: rows}, err
}

// selectRows adds n rows of the lane to a selection. It adds fewer only at the lane's end. It
// returns how many it added.
func (l *laneReader) selectRows(ctx context.Context, n int64, s *selection) (int64, error) {
	given := int64(0)
	for given < n && l.at.Range < len(l.Ranges) {
		if err := l.fill(ctx, s); err != nil {
			return 0, fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
		if l.batch == nil {
			continue
		}
		rows := min(int(l.toMark(given, n)-given), int(l.batch.NumRows())-l.used)
		s.add(l.batch, l.used, rows)
		l.used += rows
		l.pass(int64(rows))
		given += int64(rows)
		if l.complete() && l.used < int(l.batch.NumRows()) {
			return 0, fault.New(fault.Corrupt, "range %d of lane %d has more rows than the %d that were planned", l.at.Range, l.Number, l.rowsBefore())
		}
		if err := l.finishRange(ctx, s, given == n); err != nil {
			return 0, err
		}
		if err := l.mark(ctx, s, given, n); err != nil {
			return 0, err
		}
	}
	return given, nil
}

// toMark returns how many rows a step of n rows has before its next mark, or n if it has no further
// mark. given is the number of rows so far.
func (l *laneReader) toMark(given, n int64) int64 {
	if l.marks.Rows == 0 {
		return n
	}
	return min(n, (given/l.marks.Rows+1)*l.marks.Rows)
}

// mark calls marks.Reached if a step of n rows has a mark after its first given rows.
func (l *laneReader) mark(ctx context.Context, s *selection, given, n int64) error {
	if l.marks.Rows == 0 || given == n || given%l.marks.Rows != 0 {
		return nil
	}
	if err := l.lookAhead(ctx, s); err != nil {
		return err
	}
	if l.mayHaveMore() { // otherwise the step ends here
		l.marks.Reached(l.at, given)
	}
	return nil
}

// finishRange moves to the next range if the number of rows of the current range is known and the
// lane has contributed all of them. last reports that the lane opens no other range for this batch;
// then the current range stays open until the batch is cut.
func (l *laneReader) finishRange(ctx context.Context, s *selection, last bool) error {
	if !l.complete() {
		return nil
	}
	if err := l.end(ctx, s, last); err != nil {
		return err
	}
	l.advance()
	return nil
}

// end detaches the selection from a range that has ended. If the lane opens no other range for this
// batch, because last is true or the range is the lane's last one, the range stays open instead.
func (l *laneReader) end(ctx context.Context, s *selection, last bool) error {
	if !last && l.at.Range < len(l.Ranges)-1 {
		return s.detach(ctx)
	}
	s.ended = append(s.ended, l.reader)
	l.reader = nil
	return nil
}

// lookAhead reads on to find out whether the lane has another row, unless the plan knows that. As a
// result, a cursor after the lane's last row says that the lane has ended. This distinguishes
// shards that ended at different steps from shards that were stopped at different steps.
func (l *laneReader) lookAhead(ctx context.Context, s *selection) error {
	for l.at.Range < len(l.Ranges) && l.Ranges[l.at.Range] == Unknown && (l.batch == nil || l.used == int(l.batch.NumRows())) {
		if err := l.fill(ctx, s); err != nil {
			return fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
	}
	return nil
}

// fill ensures that the current batch has an unused row. If the range has no more rows, fill sets
// batch to nil and moves the lane to the next range.
func (l *laneReader) fill(ctx context.Context, s *selection) error {
	if l.batch != nil && l.used < int(l.batch.NumRows()) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.openRange(ctx); err != nil {
		return err
	}
	passed := l.batch
	l.batch, l.used = nil, 0
	if passed != nil && s.has(passed) {
		passed.Retain()
		defer passed.Release()
		if err := s.reserveLast(ctx); err != nil {
			return err
		}
	} else {
		passed = nil
	}
	for l.reader.Next() {
		if l.reader.RecordBatch().NumRows() > 0 {
			l.begin()
			if passed != nil {
				return s.reserveDictionaries(ctx, passed, l.batch)
			}
			return nil
		}
	}
	if err := l.reader.Err(); err != nil {
		return err
	}
	if want := l.Ranges[l.at.Range]; want != Unknown {
		return fault.New(fault.Corrupt, "the range ended after %d rows, but %d were planned", l.rowsBefore(), want)
	}
	if err := l.end(ctx, s, false); err != nil {
		return err
	}
	l.release()
	l.at = Position{Range: l.at.Range + 1}
	return nil
}

// openRange opens the lane's current range, if it is not open.
func (l *laneReader) openRange(ctx context.Context) error {
	if l.reader != nil {
		return nil
	}
	reader, err := l.open(ctx, l.Number, l.at)
	if err != nil {
		return err
	}
	l.reader = reader
	if l.key != nil {
		l.begins = newRequestBegins(ctx, reader, l.key, l.budget)
		l.reader = l.begins
	}
	return nil
}

// begin starts the current batch of the range.
func (l *laneReader) begin() {
	l.batch = l.reader.RecordBatch()
	if window := l.reader.Window(); window != l.at.Window {
		l.at.Window, l.at.Row = window, 0
	}
}

// rowsBefore returns the number of rows of the range before the position, if it is known.
func (l *laneReader) rowsBefore() int64 {
	if l.Windows == nil {
		return l.at.Row
	}
	return l.Windows[l.at.Range].RowsBefore(l.at.Window) + l.at.Row
}

// advance moves to the next range if the number of rows of the current range is known and all of
// them were used.
func (l *laneReader) advance() {
	for l.complete() {
		l.release()
		l.at = Position{Range: l.at.Range + 1}
	}
	invariant.Check(l.at.Range <= len(l.Ranges), "lane %d is beyond its end", l.Number)
}

func (l *laneReader) complete() bool {
	return l.at.Range < len(l.Ranges) && l.Ranges[l.at.Range] != Unknown && l.rowsBefore() >= l.Ranges[l.at.Range]
}

// release releases the open range, if there is one.
func (l *laneReader) release() {
	if l.reader != nil {
		l.reader.Release()
	}
	l.reader, l.begins, l.batch, l.used = nil, nil, nil, 0
}
