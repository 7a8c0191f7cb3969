package lane

import (
	"context"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Every selects the steps that a Reader returns: every Of-th one, starting with number
// Step, which is below Of. The zero value selects all of them.
type Every struct{ Step, Of int64 }

// before returns the number of steps between a step and the next one that the reader
// returns.
func (e Every) before(step int64) int64 {
	if e.Of <= 1 {
		return 0
	}
	return (e.Step - step%e.Of + e.Of) % e.Of
}

// takes reports whether the reader returns a step.
func (e Every) takes(step int64) bool { return e.Of <= 1 || step%e.Of == e.Step }

// skipPending skips the step whose rows were chosen to be weighed. All DataLoader workers of a
// shard weigh the shard's first step, so that all of them choose the same form, although only one
// of them returns the step.
func (r *Reader) skipPending() {
	c := r.pending
	r.pending = nil
	r.passed.Steps++
	r.passed.PerLane += r.options.Rows
	r.passed.Skipped += c.rows
	c.release()
}

// Skip skips the next step, whether or not Every selects it, and reports whether there was a next
// step. It copies no values. The batch that was returned last stays valid.
func (r *Reader) Skip(ctx context.Context) (bool, error) {
	switch {
	case r.pending != nil && r.pending.rows == 0:
		return false, nil // the next call of Next reports the end
	case r.pending != nil:
		r.skipPending()
		return true, nil
	case r.passed.Steps == r.options.Steps:
		return false, nil
	}
	passed, err := r.skipSteps(ctx, 1)
	return passed > 0, err
}

// Counted holds the number of rows of lanes, if they were counted before they are read.
type Counted struct {
	Left []int64 // the number of rows of each lane from the lane's Start on, in the order of Options.Lanes
	// Differs returns the error for a lane that has a different number of rows.
	Differs func(lane int) error
}

// skip skips the steps of other readers that precede the next step of this reader. It copies no
// values. It does not read rows of ranges whose number of rows is known.
func (r *Reader) skip(ctx context.Context) error {
	steps := r.options.Every.before(r.passed.Steps)
	if r.options.Steps != Unknown {
		steps = min(steps, r.options.Steps-r.passed.Steps)
	}
	_, err := r.skipSteps(ctx, steps)
	return err
}

// skipSteps skips the next steps, and returns how many there were.
func (r *Reader) skipSteps(ctx context.Context, steps int64) (passed int64, err error) {
	if steps == 0 {
		return 0, nil
	}
	most := int64(0)
	for _, l := range r.lanes {
		left, err := l.skip(ctx, steps*r.options.Rows)
		if err != nil {
			return 0, err
		}
		if err := r.checkSteps(l, left.counted, steps); err != nil {
			return 0, err
		}
		most = max(most, left.counted)
		r.passed.Skipped += left.rows
	}
	passed = (most + r.options.Rows - 1) / r.options.Rows
	r.passed.Steps += passed
	r.passed.PerLane += passed * r.options.Rows
	return passed, r.checkCounted()
}

// checkSteps checks that a lane contributed all of its rows to some steps, if the number of steps
// is known.
func (r *Reader) checkSteps(l *laneReader, given, steps int64) error {
	switch {
	case r.options.Steps == Unknown || given == steps*r.options.Rows:
		return nil
	case r.options.Counted.Left != nil:
		return r.options.Counted.Differs(l.Number)
	}
	return fault.New(fault.Internal, "lane %d contributed %d of %d in step %d of %d", l.Number, given, steps*r.options.Rows, r.passed.Steps, r.options.Steps)
}

// checkCounted checks that the lanes have as many rows as were counted. A lane that has not
// ended has another row.
func (r *Reader) checkCounted() error {
	for i, left := range r.options.Counted.Left {
		l := r.lanes[i]
		ended := l.at.Range == len(l.Ranges)
		if l.consumed > left || ended != (l.consumed == left) {
			return r.options.Counted.Differs(l.Number)
		}
	}
	return nil
}

// skip skips the next n rows, or requests, of the lane. It skips fewer only at the lane's end. It
// returns the number of skipped rows and requests.
func (l *laneReader) skip(ctx context.Context, n int64) (rowCount, error) {
	nothing := newSelection(nil, nil, nil)
	defer func() { batch.ReleaseAll(nothing.ended...) }()
	skipped, err := rowCount{}, error(nil)
	if l.key != nil {
		skipped, err = l.takeRequests(ctx, n, nothing, func(int) error { return nil })
	} else {
		skipped.rows, err = l.skipRows(ctx, n, nothing)
		skipped.counted = skipped.rows
	}
	if err != nil {
		return rowCount{}, err
	}
	return skipped, l.lookAhead(ctx, nothing)
}

// skipRows is like skip, for a lane that contributes rows.
func (l *laneReader) skipRows(ctx context.Context, n int64, nothing *selection) (int64, error) {
	skipped := int64(0)
	for skipped < n && l.at.Range < len(l.Ranges) {
		rows := n - skipped
		if known := l.Ranges[l.at.Range]; known != Unknown && (l.reader == nil || l.rowsBefore()+rows >= known) {
			rows = min(rows, known-l.rowsBefore())
			l.jump(rows)
		} else {
			if err := l.fill(ctx, nothing); err != nil {
				return 0, fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
			}
			if l.batch == nil {
				continue
			}
			rows = min(rows, l.batch.NumRows()-int64(l.used))
			l.used += int(rows)
			l.pass(rows)
		}
		skipped += rows
		l.advance()
	}
	return skipped, nil
}

// pass advances the position by rows of the current batch.
func (l *laneReader) pass(rows int64) {
	l.at.Row += rows
	l.consumed += rows
}

// jump skips rows without reading them. The new position is the same as after reading the rows: if
// they end with a window, it is at the end of that window and not at the start of the next one.
func (l *laneReader) jump(rows int64) {
	if rows == 0 {
		return
	}
	given := l.rowsBefore() + rows
	l.at.Row = given
	if l.Windows != nil {
		windows := l.Windows[l.at.Range]
		l.at.Window = windows.WindowAt(given - 1)
		l.at.Row -= windows.RowsBefore(l.at.Window)
	}
	l.consumed += rows
}
