package stream

import (
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Limits of the default batch size: at most defaultBatchRows rows, and at most as many rows as are
// expected to fit in defaultBatchBytes. These limits cannot be configured, so that all replicas
// choose the same size.
const (
	defaultBatchRows  = 8192
	defaultBatchBytes = 64 << 20
)

// BatchRows returns the number of rows of a reading's batches, or the number of requests if batches
// consist of requests. This is the requested number, if there is one. The default depends only on
// the plan and the outputs.
func BatchRows(p *plan.Plan, r dataset.Reading, outputs []resolve.Output) int {
	switch {
	case p.Rows.Requests:
		return r.BatchRequests
	case r.BatchRows != 0:
		return r.BatchRows
	case r.GlobalBatchRows != 0:
		return r.GlobalBatchRows / max(1, r.Shard.Of)
	}
	rows := min(defaultBatchRows, int(defaultBatchBytes/max(1, p.ExpectedBytes(outputs))))
	return wholeSteps(p, r, rows)
}

// wholeSteps returns the largest multiple of a shard's number of lanes that is at most
// rows, but at least one row per lane.
func wholeSteps(p *plan.Plan, r dataset.Reading, rows int) int {
	lanes := max(1, len(p.Lanes)/max(1, r.Shard.Of))
	return max(1, rows/lanes) * lanes
}

// fits refuses a batch size if batches would take more than limit bytes even with all values at
// their minimum size. A limit of 0 means no limit. Batches with larger values are checked when they
// are made.
func (s ReadSpec) fits(limit int64) error {
	p, r := s.Plan, s.Reading
	least, rows := plan.MinRowBits(r.Wire, s.Outputs), int64(s.BatchRows)
	if limit == 0 || least == 0 || r.BatchRows == 0 && r.GlobalBatchRows == 0 && !p.Rows.Requests || rows <= limit*8/least {
		return nil
	}
	most := limit * 8 / least
	by := sizedBy(r)
	e := fault.InvalidField(by.Field, "a batch of %s takes at least %d bytes, more than the server's limit of %d (max_batch_bytes); at most %d can fit",
		fault.Count(rows, "row"), rows*least/8, limit, most)
	likely := min(most, limit/max(1, p.ExpectedBytes(s.Outputs)))
	return e.WithRemedy("ask for %s of at most %d, or for fewer columns; or raise max_batch_bytes", by.Field, by.Batches*wholeSteps(p, r, int(likely)))
}

// sizedBy returns the query field that sets the batch size.
func sizedBy(r dataset.Reading) lane.SizedBy {
	switch {
	case r.BatchRequests != 0:
		return lane.SizedBy{Field: "batch_requests", Batches: 1}
	case r.GlobalBatchRows != 0:
		return lane.SizedBy{Field: "global_batch_rows", Batches: max(1, r.Shard.Of)}
	}
	return lane.SizedBy{Field: "batch_rows", Batches: 1}
}
