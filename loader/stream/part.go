package stream

import (
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// within restricts a stream to a part of the plan's splits. If the stream resumes, the lane is at
// its cursor's position, which must be in the part.
func (s *shard) within(part plan.Part, resumed bool) error {
	p := s.Plan
	if part.IsZero() {
		return nil
	}
	if len(p.Lanes) != 1 || part.From < 0 || part.From > part.To || part.To > len(s.lanes[0].Ranges) {
		return fault.New(fault.Internal, "splits %d to %d are not part of a plan with %d lanes and %d splits", part.From, part.To, len(p.Lanes), len(p.Splits))
	}
	only := &s.lanes[0]
	only.Ranges = only.Ranges[:part.To]
	if resumed {
		if at := only.Start; at.Range < part.From || at.Range >= part.To && at != (lane.Position{Range: part.To}) {
			return fault.New(fault.Internal, "the cursor is in split %d, outside of splits %d to %d", at.Range, part.From, part.To)
		}
		return nil
	}
	only.Start = lane.Position{Range: part.From}
	if p.Inexact == "" {
		s.rows = p.RowsBefore(dataset.Position{Range: part.From})
	}
	s.uneven = p.Inexact != "" && part.From > 0
	return nil
}
