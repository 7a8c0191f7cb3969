package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// Every is the steps that a Reader gives of those of its lanes: every Of-th one, from
// number Step on, which is below Of. The zero value gives all of them.
type Every struct{ Step, Of int64 }

// before returns how many steps of others come before the next one that the reader
// gives, when it stands before a step.
func (e Every) before(step int64) int64 {
	if e.Of <= 1 {
		return 0
	}
	return (e.Step - step%e.Of + e.Of) % e.Of
}

// takes says whether the reader gives a step.
func (e Every) takes(step int64) bool { return e.Of <= 1 || step%e.Of == e.Step }

// leaveOut leaves out the step whose rows were chosen to be weighed: all workers of a
// shard weigh its first one, whoever gives it, and so decide alike.
func (r *Reader) leaveOut() {
	c := r.chosen
	r.chosen = nil
	r.step, r.given, r.skipped = r.step+1, r.given+r.options.Rows, r.skipped+c.rows
	c.release()
}

// Counted is how many rows lanes give, where that was counted before they are read.
type Counted struct {
	Left []int64 // that each lane gives from its Start on, in the order of Options.Lanes
	// Differs makes the error of a lane that gives other rows.
	Differs func(lane int) error
}

// skip leaves out the steps of others that come before the next one that the reader
// gives: nothing of them is gathered, and where rows are known by their number alone,
// nothing is read.
func (r *Reader) skip() error {
	steps := r.options.Every.before(r.step)
	if r.options.Steps != Unknown {
		steps = min(steps, r.options.Steps-r.step)
	}
	if steps == 0 {
		return nil
	}
	most := int64(0)
	for _, l := range r.lanes {
		left, err := l.skip(r.ctx, steps*r.options.Rows)
		if err != nil {
			return err
		}
		if err := r.enough(l, left.counted, steps); err != nil {
			return err
		}
		most, r.skipped = max(most, left.counted), r.skipped+left.rows
	}
	passed := (most + r.options.Rows - 1) / r.options.Rows
	r.step, r.given = r.step+passed, r.given+passed*r.options.Rows
	return r.check()
}

// enough says whether a lane gave all of some steps, where the steps are known.
func (r *Reader) enough(l *laneReader, given, steps int64) error {
	switch {
	case r.options.Steps == Unknown || given == steps*r.options.Rows:
		return nil
	case r.options.Counted.Left != nil:
		return r.options.Counted.Differs(l.Number)
	}
	return fault.New(fault.Internal, "lane %d gave %d of %d in step %d of %d", l.Number, given, steps*r.options.Rows, r.step, r.options.Steps)
}

// check says whether the lanes have given as many rows as were counted. A lane that
// has not ended has another row.
func (r *Reader) check() error {
	for i, left := range r.options.Counted.Left {
		l := r.lanes[i]
		ended := l.at.Range == len(l.Ranges)
		if l.passed > left || ended != (l.passed == left) {
			return r.options.Counted.Differs(l.Number)
		}
	}
	return nil
}

// skip leaves out the next n rows of the lane, or requests, fewer only at its end, and
// returns how many.
func (l *laneReader) skip(ctx context.Context, n int64) (portion, error) {
	nothing := newSelection(nil, nil, nil)
	defer func() { releaseAll(nothing.ended) }()
	skipped, err := portion{}, error(nil)
	if l.key != nil {
		skipped, err = l.passRequests(ctx, n, nothing, func(int) error { return nil })
	} else {
		skipped.rows, err = l.skipRows(ctx, n, nothing)
		skipped.counted = skipped.rows
	}
	if err != nil {
		return portion{}, err
	}
	return skipped, l.lookAhead(ctx, nothing)
}

// skipRows is skip for a lane that gives rows.
func (l *laneReader) skipRows(ctx context.Context, n int64, nothing *selection) (int64, error) {
	skipped := int64(0)
	for skipped < n && l.at.Range < len(l.Ranges) {
		rows := n - skipped
		if known := l.Ranges[l.at.Range]; known != Unknown && (l.reader == nil || l.given()+rows >= known) {
			rows = min(rows, known-l.given())
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

// pass notes that rows of the batch at hand were given, or left out.
func (l *laneReader) pass(rows int64) {
	l.at.Row += rows
	l.passed += rows
}

// jump leaves out rows that are not read. The lane then stands where it would stand
// if it had given them: at the end of a window, rather than before the next one.
func (l *laneReader) jump(rows int64) {
	given := l.given() + rows
	if l.Window > 0 && rows > 0 {
		l.at.Window = (given - 1) / l.Window
	}
	l.at.Row = given - l.at.Window*l.Window
	l.passed += rows
}

func releaseAll(ranges []array.RecordReader) {
	for _, r := range ranges {
		r.Release()
	}
}
