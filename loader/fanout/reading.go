package fanout

import (
	"context"
	"time"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/stream"
)

// reading is the reader of a group. The member that pulls uses it.
type reading struct {
	reader  *stream.StepReader // nil before the first pull and after a failure
	planned loader.Planned     // of the reader, from no cursor
	changed int                // how often planned has changed
}

// maxChanged bounds how often the reader of a group is opened with another spec, so that streams that join and
// leave do not make the others read slowly.
const maxChanged = 32

// maxPlanTime bounds how long a group waits for a plan of the columns that its members need together: a
// catalog that does not answer must not hold up streams that are already planned.
const maxPlanTime = time.Second

// open opens the reader, unless it is open, and returns its spec: the needed one instead of the one that it has. If
// streams with the needed spec would not read the same rows, or the spec has changed too often, the reader keeps
// the spec that it has.
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

// plan plans the reader with another spec for a member. It returns false if streams with the spec would
// not read the same rows.
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
