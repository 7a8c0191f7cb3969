package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// maxScanRows is the maximum number of training rows that are decoded into one batch.
const maxScanRows = 1 << 17

// trainingRows opens the training rows that a stream joins.
type trainingRows struct {
	spec     *RangesSpec
	rowBytes int64 // expected memory of the training columns of a row
	// scan opens columns of the rows of a source. If repeated rows are dropped, the source is a whole split.
	scan func(ctx context.Context, source plan.Source, read columns) (SourceRows, error)
	// whole means that repeated rows are dropped. Then whole splits are read, since only all rows
	// of a split tell which of them are repeated.
	whole bool
}

func newTrainingRows(spec *RangesSpec, o Options, outputs []resolve.Output) *trainingRows {
	of := slices.DeleteFunc(slices.Clone(outputs), func(o resolve.Output) bool { return !o.OfTraining() })
	t := &trainingRows{spec: spec, rowBytes: spec.Plan.ExpectedBytes(of), scan: o.scan}
	if d := spec.Plan.Relation.Distinct; d != nil {
		t.scan, t.whole = distinctRows{Distinct: d, options: o}.scan, true
	}
	return t
}

// between opens columns of the rows of a range. If rows are permuted, the last column is the number
// of each row among the stored rows of its split.
func (t *trainingRows) between(ctx context.Context, at plan.Range, read columns) (SourceRows, error) {
	if !t.whole || t.spec.Shuffle == nil {
		return t.scan(ctx, t.source(at), read)
	}
	rows, err := t.scan(ctx, t.source(plan.Range{Split: at.Split, To: t.spec.Plan.Splits[at.Split].Rows}), read)
	if err != nil {
		return nil, err
	}
	return rowsBetween(rows, at.From, at.To), nil
}

// source returns the source of the rows of a range.
func (t *trainingRows) source(at plan.Range) plan.Source {
	source := t.spec.Plan.Training(at)
	source.Lanes = len(t.spec.Lanes)
	shuffle := t.spec.Shuffle
	if source.Ordinals = shuffle != nil; !source.Ordinals {
		return source
	}
	if bytes := shuffle.ScanRows * t.rowBytes; bytes > 0 {
		source.BatchRows, source.Ahead, source.Starting = int(min(shuffle.ScanRows, maxScanRows)), bytes, shuffle.Starting
	}
	return source
}

// rowsBetween returns the rows whose last column is in [from, to). The values of the last column
// must ascend. rowsBetween takes ownership of rows.
func rowsBetween(rows SourceRows, from, to int64) SourceRows {
	next := func() (arrow.RecordBatch, error) {
		for rows.Next() {
			b := rows.RecordBatch()
			numbers := b.Column(int(b.NumCols()) - 1).(*array.Int64).Int64Values()
			first, _ := slices.BinarySearch(numbers, from)
			end, _ := slices.BinarySearch(numbers, to)
			if first < end {
				return b.NewSlice(int64(first), int64(end)), nil
			}
		}
		return nil, rows.Err()
	}
	return derivedRows{RecordReader: batch.FromFunc(rows.Schema(), next, rows.Release), of: rows}
}

// source returns the source for training rows of a range, given the range's index in the lane. If
// shared is not nil, the scan shares its stored bytes. If the plan is exact, batches of the source
// end where steps of the lane end.
func (l *Lane) source(index int, at plan.Range, shared plan.SharedRead) plan.Source {
	s := l.stream
	source := s.training.source(at)
	source.Shared = shared
	if rows := s.spec.StepRows; rows > 0 && s.plan.Inexact == "" {
		before := l.rowsBefore[index] + at.From - l.Ranges[index].From - l.rowsBefore[l.First] - l.Row // below 0 if rows are read again after parking
		source.StepRows, source.Begun = rows, (before%rows+rows)%rows
	}
	return source
}

// KeyRows opens some training rows of a split: those that pass deletes, filters and sample. They
// have the columns of RangesSpec.Key, followed by the number of each row among the stored rows of
// the split.
func (s *Ranges) KeyRows(ctx context.Context, at plan.Range) (SourceRows, error) {
	var read columns
	for _, f := range s.spec.Key {
		read.add(column{field: f})
	}
	if s.training.whole {
		return s.training.between(ctx, at, read)
	}
	source := s.plan.Training(at)
	source.Ordinals = true
	return s.training.scan(ctx, source, read)
}
