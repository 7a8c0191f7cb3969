package flight

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// planSlot is what a plan waits for that waits for a slot.
const planSlot = "slot"

// PlanningStatus is a call that makes a plan. The plan of a stream is not one: the stream is listed itself.
type PlanningStatus struct {
	ID      string    `json:"id"` // random, of this call
	Subject string    `json:"subject,omitempty"`
	Job     string    `json:"job,omitempty"`
	Dataset string    `json:"dataset,omitempty"` // omitted if the query carried its dataset
	Inline  bool      `json:"inline,omitempty"`  // the query carried its dataset
	Started time.Time `json:"started"`
	OpenMS  int64     `json:"open_ms"` // since then
	// Waiting is what the call waits for now; omitted if it does not wait. "slot": as many calls as allowed make plans; "tables": tables
	// are looked up in catalogs, and their metadata files are read; "files": the lists of their files are read.
	Waiting string `json:"waiting,omitempty"`
}

// runningPlan is a call that makes a plan. The goroutine of the call writes it; other goroutines read it.
type runningPlan struct {
	id, client, subject string
	query               dataset.Query
	began               time.Time
	waiting             atomic.Pointer[string]
}

// awaits records what the call waits for; "": nothing.
func (one *runningPlan) awaits(what string) { one.waiting.Store(&what) }

// runningPlans holds the calls of a server that make plans, within their slots. It is safe for concurrent use.
type runningPlans struct {
	mu  sync.Mutex
	all map[*runningPlan]struct{}
}

// begin adds a call. The caller calls end once.
func (r *runningPlans) begin(c *call.Call, query dataset.Query, now time.Time) (one *runningPlan, end func()) {
	one = &runningPlan{id: randomID(), client: c.Client(), subject: c.Caller.Subject, query: query, began: now}
	one.awaits(planSlot)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*runningPlan]struct{}{}
	}
	r.all[one] = struct{}{}
	return one, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, one)
	}
}

// list returns the status of the calls that a caller may see at a time, the oldest first.
func (r *runningPlans) list(now time.Time, may func(client string) bool) []PlanningStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []PlanningStatus{}
	for one := range r.all {
		if may(one.client) {
			out = append(out, PlanningStatus{
				ID: one.id, Subject: one.subject, Job: one.query.Job, Dataset: one.query.Dataset, Inline: one.query.Inline != nil,
				Started: one.began.UTC().Truncate(time.Millisecond), OpenMS: now.Sub(one.began).Milliseconds(), Waiting: *one.waiting.Load(),
			})
		}
	}
	slices.SortFunc(out, func(a, b PlanningStatus) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// planShown is planQuery for a call that the status lists meanwhile.
func (s *Server) planShown(ctx context.Context, may access.Grant, query dataset.Query) (planned, error) {
	one, end := s.planning.begin(may.Call, query, s.options.Clock())
	defer end()
	return s.planQuery(ctx, may, query, one.awaits)
}

// planRequest returns what the loader plans for a caller. awaits receives what the call waits for.
func planRequest(ctx context.Context, may access.Grant, query dataset.Query, awaits func(string)) loader.PlanRequest {
	return loader.PlanRequest{
		Query: query, Rights: may.Rights, Step: func(step loader.PlanStep) { awaits(step.Awaits()) },
		BeforeBuild: func() error {
			awaits(planSlot)
			defer awaits(loader.FilesStep.Awaits())
			return may.Call.Slot.EnterPlan(ctx)
		},
	}
}
