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
	open    Open
	at      Position
	key     []int             // of requests, see Options.Request
	grouped bool              // whether it is noted where the requests of a batch begin
	budget  *budget.Budget    // pays for what is noted of requests
	passed  int64             // rows, or requests, from Start on: those given, and those left out
	reader  Sequence          // of range at.Range, nil if not open
	begins  *requestBegins    // reader, where the lane gives requests; else nil
	batch   arrow.RecordBatch // borrowed from reader, nil if none
	used    int               // rows of batch that were given
}

func newLaneReader(lane Lane, options Options) *laneReader {
	l := &laneReader{Lane: lane, open: options.Open, key: options.Request, grouped: options.Grouped != nil, budget: options.Budget, at: lane.Start}
	l.advance()
	return l
}

// goesOn says whether the lane may have more rows.
func (l *laneReader) goesOn() bool { return l.at.Range < len(l.Ranges) }

// take adds up to n rows of the lane, or requests, to those of a batch; fewer only at the
// lane's end. It returns how many.
func (l *laneReader) take(ctx context.Context, n int64, s *selection) (portion, error) {
	if l.key != nil {
		return l.passRequests(ctx, n, s, func(rows int) error {
			s.add(l.batch, l.used, rows)
			if !l.grouped {
				return nil
			}
			return s.divide(ctx, l.begins.goesOn[l.used:l.used+rows])
		})
	}
	rows, err := l.selectRows(ctx, n, s)
	return portion{rows: rows, counted: rows}, err
}

// selectRows adds up to n rows of the lane to those of a batch; fewer only at the
// lane's end. It returns how many.
func (l *laneReader) selectRows(ctx context.Context, n int64, s *selection) (int64, error) {
	given := int64(0)
	for given < n && l.at.Range < len(l.Ranges) {
		if err := l.fill(ctx, s); err != nil {
			return 0, fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
		if l.batch == nil {
			continue
		}
		rows := min(int(n-given), int(l.batch.NumRows())-l.used)
		s.add(l.batch, l.used, rows)
		l.used += rows
		l.pass(int64(rows))
		given += int64(rows)
		if l.complete() && l.used < int(l.batch.NumRows()) {
			return 0, fault.New(fault.Corrupt, "range %d of lane %d has more rows than the %d that were planned", l.at.Range, l.Number, l.given())
		}
		if err := l.leave(ctx, s, given == n); err != nil {
			return 0, err
		}
	}
	return given, nil
}

// leave goes on to the next range, if the lane has given all rows of this one and
// their number is known. Where the lane opens no other for this batch, it stays open
// until that is cut.
func (l *laneReader) leave(ctx context.Context, s *selection, last bool) error {
	if !l.complete() {
		return nil
	}
	if err := l.end(ctx, s, last); err != nil {
		return err
	}
	l.advance()
	return nil
}

// end parts with a range that has ended: last says that the lane opens no other one
// for this batch.
func (l *laneReader) end(ctx context.Context, s *selection, last bool) error {
	if !last && l.at.Range < len(l.Ranges)-1 {
		return s.detach(ctx)
	}
	s.ended = append(s.ended, l.reader)
	l.reader = nil
	return nil
}

// lookAhead finds out whether the lane has another row where the plan cannot
// tell, so that a cursor never stands before an end that nobody has seen: shards
// that ended at different steps can then be told from shards that were stopped
// at different steps.
func (l *laneReader) lookAhead(ctx context.Context, s *selection) error {
	for l.at.Range < len(l.Ranges) && l.Ranges[l.at.Range] == Unknown && (l.batch == nil || l.used == int(l.batch.NumRows())) {
		if err := l.fill(ctx, s); err != nil {
			return fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
	}
	return nil
}

// fill makes sure that batch has a row that was not given; batch is nil after it
// where the range has ended, and the lane stands at the next one.
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
		if err := s.pass(ctx); err != nil {
			return err
		}
	} else {
		passed = nil
	}
	for l.reader.Next() {
		if l.reader.RecordBatch().NumRows() > 0 {
			l.begin()
			if passed != nil {
				return s.passed(ctx, passed, l.batch)
			}
			return nil
		}
	}
	if err := l.reader.Err(); err != nil {
		return err
	}
	if want := l.Ranges[l.at.Range]; want != Unknown {
		return fault.New(fault.Corrupt, "the range ended after %d rows, %d were planned", l.given(), want)
	}
	if err := l.end(ctx, s, false); err != nil {
		return err
	}
	l.close()
	l.at = Position{Range: l.at.Range + 1}
	return nil
}

// openRange opens the range in which the lane stands, if it is not open.
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

// begin begins with the batch that the range has at hand.
func (l *laneReader) begin() {
	l.batch = l.reader.RecordBatch()
	if window := l.reader.Window(); window != l.at.Window {
		l.at.Window, l.at.Row = window, 0
	}
}

// given returns how many rows of the range were given, where their number is known.
func (l *laneReader) given() int64 { return l.at.Window*l.Window + l.at.Row }

// advance moves a lane that has given all rows of a range, where their number
// is known, to the start of the next.
func (l *laneReader) advance() {
	for l.complete() {
		l.close()
		l.at = Position{Range: l.at.Range + 1}
	}
	invariant.Check(l.at.Range <= len(l.Ranges), "lane %d stands behind its end", l.Number)
}

func (l *laneReader) complete() bool {
	return l.at.Range < len(l.Ranges) && l.Ranges[l.at.Range] != Unknown && l.given() >= l.Ranges[l.at.Range]
}

// close releases the open range, if there is one.
func (l *laneReader) close() {
	if l.reader != nil {
		l.reader.Release()
	}
	l.reader, l.begins, l.batch, l.used = nil, nil, nil, 0
}
