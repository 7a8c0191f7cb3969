package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/plan"
)

// maxScanRows is the maximum number of training rows that are decoded into one batch.
const maxScanRows = 1 << 17

// training opens columns of those training rows of a range that reach the join. If repeated rows are dropped and rows
// are permuted, the last column is the number of each row among the stored rows of its split.
func (s *Ranges) training(ctx context.Context, at plan.Range, read columns) (SourceRows, error) {
	if s.plan.Relation.Distinct == nil || !s.spec.Ordinals {
		return s.scanned(ctx, s.trainingSource(at), read)
	}
	// Which rows are repeated is known only after reading all rows of the split.
	rows, err := s.scanned(ctx, s.trainingSource(plan.Range{Split: at.Split, To: s.plan.Splits[at.Split].Rows}), read)
	if err != nil {
		return nil, err
	}
	return rowsBetween(rows, at.From, at.To), nil
}

// rowsBetween returns those of some rows whose last column, which ascends, is in [from, to). It takes ownership.
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

// scanned opens columns of the training rows of a source that reach the join.
func (s *Ranges) scanned(ctx context.Context, source plan.Source, read columns) (SourceRows, error) {
	if s.plan.Relation.Distinct == nil {
		return s.options.scan(ctx, source, read)
	}
	return s.distinct(ctx, source, read)
}

// source returns the source of training rows of a range, given its index in the lane, whose stored bytes may be shared.
// Its batches end where the lane's steps end, if each of its rows is returned.
func (l *Lane) source(index int, at plan.Range, shared plan.SharedRead) plan.Source {
	s := l.stream
	source := s.trainingSource(at)
	source.Shared = shared
	if rows := s.spec.StepRows; rows > 0 && s.plan.Inexact == "" {
		before := l.rowsBefore[index] + at.From - l.Ranges[index].From - l.rowsBefore[l.First] - l.Row // below 0 if rows are read again after parking
		source.StepRows, source.Begun = rows, (before%rows+rows)%rows
	}
	return source
}

func (s *Ranges) trainingSource(at plan.Range) plan.Source {
	source := s.plan.Training(at)
	source.Ordinals = s.spec.Ordinals
	if bytes := s.spec.ScanRows * s.rowBytes; bytes > 0 {
		source.BatchRows, source.Ahead, source.Starting = int(min(s.spec.ScanRows, maxScanRows)), bytes, s.spec.Starting
	}
	return source
}

// KeyRows opens the columns of RangesSpec.Key of training rows of a split, followed by the number of each row among
// the stored rows of the split: those that pass deletes, filters and sample.
func (s *Ranges) KeyRows(ctx context.Context, at plan.Range) (SourceRows, error) {
	var read columns
	for _, f := range s.spec.Key {
		read.add(column{field: f})
	}
	if s.plan.Relation.Distinct != nil {
		return s.training(ctx, at, read)
	}
	source := s.plan.Training(at)
	source.Ordinals = true
	return s.options.scan(ctx, source, read)
}
