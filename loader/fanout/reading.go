package fanout

import (
	"context"
	"time"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/stream"
)

// reading holds the reader of a group. Only the member that pulls uses it.
type reading struct {
	reader  *stream.StepReader // nil before the first pull and after a failure
	planned loader.Planned     // the planned query of the reader, without cursors
	changed int                // how often planned has changed
}

// maxChanged is the maximum number of times that a group's reader is opened with another spec.
// Without this limit, streams that join and leave could slow down the other members.
const maxChanged = 32

// maxPlanTime is the maximum time that a group waits for a plan with the columns that its members
// need together. A catalog that does not respond must not delay streams that are already planned.
const maxPlanTime = time.Second

// open opens the reader with the needed spec, and returns the reader's spec. If the reader is
// already open with that spec, it stays open. If the spec has changed too often, or if streams with
// the needed spec would not read the same rows, the reader keeps the spec that it has.
func (r *reading) open(ctx context.Context, m *groupMember, has, need batchSpec, form stream.Form) (batchSpec, error) {
	if !need.equal(has) && r.changed < maxChanged {
		if planned, ok := r.plan(ctx, m, need); ok {
			r.planned, has = planned, need
			r.changed++
			r.close()
		}
	}
	var err error
	if r.reader == nil {
		r.reader, err = m.reader(ctx, r.planned, form)
	}
	return has, err
}

// plan makes a plan for a reader with another spec, on behalf of a member. It returns false if
// streams with that spec would not read the same rows.
func (r *reading) plan(ctx context.Context, m *groupMember, spec batchSpec) (loader.Planned, bool) {
	p, q := r.planned, r.planned.Query
	q.Pin = p.Rows.Pin
	q.Columns = spec.columns.list
	if !p.Rows.Requests {
		q.Reading = q.WithBatchRows(int(spec.perLane) * (len(p.Lanes) / max(1, q.Shard.Of)))
	}
	ctx, cancel := context.WithTimeout(ctx, maxPlanTime)
	defer cancel()
	made, err := m.opener.Plan(ctx, q)
	if err != nil {
		m.sharer.log.DebugContext(ctx, "columns or batches of several streams cannot be read together", "plan", p.ID, "error", err)
		return p, false
	}
	made.Query.Pin = p.Query.Pin
	return made, made.ID == p.ID && made.TablesID == p.TablesID
}

// close releases the reader.
func (r *reading) close() {
	if r.reader != nil {
		r.reader.Release()
		r.reader = nil
	}
}
