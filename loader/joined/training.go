package joined

import (
	"context"

	"github.com/penstock/penstock/loader/plan"
)

// maxScanRows is the maximum number of training rows that are decoded into one batch.
const maxScanRows = 1 << 17

// scanned returns the rows to scan of a range whose rows are joined from one on.
func (s *Ranges) scanned(whole plan.Range, from int64) plan.Range {
	if s.spec.Scanned != nil {
		return s.spec.Scanned(whole, from)
	}
	whole.From = from
	return whole
}

// training opens columns of those training rows of a range that reach the join.
func (s *Ranges) training(ctx context.Context, at plan.Range, read columns) (SourceRows, error) {
	source := s.trainingSource(at)
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
