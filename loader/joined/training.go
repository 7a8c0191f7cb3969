package joined

import (
	"context"

	"github.com/penstock/penstock/loader/plan"
)

// maxScanRows is the maximum number of training rows that are decoded into one batch.
const maxScanRows = 1 << 17

// training opens columns of those training rows of a range that reach the join.
func (s *Ranges) training(ctx context.Context, at plan.Range, read columns) (SourceRows, error) {
	return s.scanned(ctx, s.trainingSource(at), read)
}

// scanned opens columns of the training rows of a source that reach the join.
func (s *Ranges) scanned(ctx context.Context, source plan.Source, read columns) (SourceRows, error) {
	if s.plan.Relation.Distinct == nil {
		return s.options.scan(ctx, source, read)
	}
	return s.distinct(ctx, source, read)
}

func (s *Ranges) trainingSource(at plan.Range) plan.Source {
	source := s.plan.Training(at)
	source.Ordinals = s.spec.Ordinals
	if bytes := s.spec.ScanRows * s.rowBytes; bytes > 0 {
		source.BatchRows, source.Ahead = int(min(s.spec.ScanRows, maxScanRows)), bytes
	}
	if s.spec.CountOnly && len(s.staging) == 0 {
		source.Checked = nil // the location of rows decides nothing here; the stream checks it
	}
	return source
}

// KeyRows opens the columns of RangesSpec.Key of training rows of a split, followed by the number of each row among
// the stored rows of the split: those that pass deletes, filters and sample.
func (s *Ranges) KeyRows(ctx context.Context, at plan.Range) (SourceRows, error) {
	source := s.plan.Training(at)
	source.Ordinals = true
	var read columns
	for _, f := range s.spec.Key {
		read.add(column{field: f})
	}
	return s.options.scan(ctx, source, read)
}
