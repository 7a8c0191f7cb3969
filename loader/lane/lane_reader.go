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
	grouped  bool              // whether to record where requests begin
	budget   *budget.Budget    // reserves these records
	consumed int64             // rows, or requests, contributed or skipped since Start
	reader   Sequence          // of range at.Range, nil if not open
	begins   *requestBegins    // reader, if lanes contribute requests; otherwise nil
	batch    arrow.RecordBatch // borrowed from reader, nil if none
	used     int               // rows of batch that were contributed or skipped
	marks    Marks
}

func newLaneReader(lane Lane, options Options) *laneReader {
	l := &laneReader{Lane: lane, open: options.Open, key: options.Request, grouped: options.Grouped != nil, budget: options.Budget, at: lane.Start}
	l.advance()
	return l
}

// mayHaveMore reports whether the lane may have more rows.
func (l *laneReader) mayHaveMore() bool { return l.at.Range < len(l.Ranges) }

// take adds up to n rows of the lane, or requests, to a selection, fewer only at the
// lane's end. It returns their number.
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

// selectRows adds up to n rows of the lane to a selection, fewer only at the lane's end.
// It returns their number.
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

// toMark returns the number of rows of a step of n before its next mark, or n.
func (l *laneReader) toMark(given, n int64) int64 {
	if l.marks.Rows == 0 {
		return n
	}
	return min(n, (given/l.marks.Rows+1)*l.marks.Rows)
}

// mark reports a mark after the given rows of a step of n, if there is one.
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

// finishRange moves to the next range if the lane has contributed all rows of this one and
// their number is known. If the lane opens no other range for this batch, the range stays
// open until the batch is cut.
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

// end detaches the selection from a range that has ended. last reports that the lane
// opens no other range for this batch; then the range stays open instead.
func (l *laneReader) end(ctx context.Context, s *selection, last bool) error {
	if !last && l.at.Range < len(l.Ranges)-1 {
		return s.detach(ctx)
	}
	s.ended = append(s.ended, l.reader)
	l.reader = nil
	return nil
}

// lookAhead reads on to find out whether the lane has another row, if the plan does not know. So a
// cursor after the last row says that the lane has ended, and shards that ended at different steps
// can be distinguished from shards that were stopped at different steps.
func (l *laneReader) lookAhead(ctx context.Context, s *selection) error {
	for l.at.Range < len(l.Ranges) && l.Ranges[l.at.Range] == Unknown && (l.batch == nil || l.used == int(l.batch.NumRows())) {
		if err := l.fill(ctx, s); err != nil {
			return fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
	}
	return nil
}

// fill ensures that batch has an unused row. If the range has ended instead, batch is nil
// and the lane is at the next range.
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

// advance moves to the next range if all rows of the current one, whose number is known,
// were used.
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
