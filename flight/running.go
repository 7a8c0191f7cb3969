package flight

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/dataset"
)

// runningStream is the state of a stream of batches that the action status shows. It exists from
// the moment when the ticket is accepted. The goroutine of the stream's call writes it; other
// goroutines read it.
type runningStream struct {
	id      string // random, so that it reveals nothing about other streams
	client  string // see call.client
	subject string
	plan    string
	query   dataset.Query // of the ticket
	way     string        // one of the way… constants
	began   time.Time
	entered time.Time // began, by the clock of ticks
	waits   *waits.Waits
	counted StreamTimes   // the times that are in runningStreams.times; guarded by its mutex
	steps   *trace.Steps  // nil: no step is traced
	others  time.Duration // what working returned when the stream began
	limited bool          // the client may not read all of the dataset
	ending  ending

	extent atomic.Pointer[streamExtent] // nil until the stream is planned
	sent   streamCounts
	parked atomic.Bool
	// delivered is when the last batch was delivered, in nanoseconds after entered.
	delivered atomic.Int64
}

// streamExtent says how much a stream has to send; unknown values are -1.
type streamExtent struct {
	lanes int   // of its shard
	rows  int64 // of this stream, from its cursor on
	steps int64 // of its shard, from the start of the plan
}

// streamCounts counts what a stream has sent.
type streamCounts struct {
	rows, batches, bytes, mapped atomic.Int64
	step                         atomic.Int64 // of its last cursor, counted from the start of the plan
}

// runningStreams holds the streams of a server that run or wait for a slot. It is safe for concurrent use.
type runningStreams struct {
	clock, ticks func() time.Time
	tracer       *trace.Tracer // nil: nothing is traced

	mu    sync.Mutex
	all   map[*runningStream]struct{}
	times map[string]StreamTimes // by dataset
}

func newRunningStreams(clock, ticks func() time.Time, tracer *trace.Tracer) *runningStreams {
	return &runningStreams{clock: clock, ticks: ticks, tracer: tracer, all: map[*runningStream]struct{}{}, times: map[string]StreamTimes{}}
}

// begin adds the stream of a ticket. It returns the stream, and a context that records waits and traced steps in it.
func (r *runningStreams) begin(ctx context.Context, c *call.Call, of ticket.Content, rights access.Grant, way string) (context.Context, *runningStream) {
	one := &runningStream{
		id: randomID(), client: c.Client(), subject: c.Caller.Subject, plan: of.Plan, query: rights.Query, limited: rights.Limited, way: way, began: r.clock(), entered: r.ticks(), waits: waits.New(r.ticks),
	}
	one.waits.Connected(c.Connection.Blocked)
	one.waits.Begin(waits.Send) // for as long as the stream lives: what nothing else counts
	for _, cursor := range rights.Query.Cursor {
		one.sent.step.Store(cursor.Step)
	}
	ctx = one.trace(waits.With(ctx, one.waits), r.tracer, of)
	one.others = r.working()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[one] = struct{}{}
	return ctx, one
}

// randomID returns an id that reveals nothing about others.
func randomID() string {
	return fmt.Sprintf("%016x", rand.Uint64()) //nolint:gosec // it is not a secret
}

// end removes a stream. It may be called more than once.
func (r *runningStreams) end(one *runningStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, runs := r.all[one]; runs {
		r.count(one)
	}
	delete(r.all, one)
}

// list returns the streams that a caller may see, the oldest first.
func (r *runningStreams) list(may func(*runningStream) bool) []*runningStream {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runningStream
	for one := range r.all {
		if may(one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b *runningStream) int { return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.id, b.id)) })
	return out
}

// planned records how much the stream has to send.
func (one *runningStream) planned(p planned) {
	extent := &streamExtent{lanes: len(p.Lanes) / p.Query.Shard.Of, rows: unknown, steps: unknown}
	if p.part.IsZero() { // a part has only some of the splits
		extent.rows, extent.steps = p.limited(p.rowsOf(p.Query.Shard)), p.summary().Steps
	}
	one.extent.Store(extent)
}

// progress records what the stream has sent.
func (o *streamSender) progress() {
	sent := &o.running.sent
	sent.rows.Store(o.rows)
	sent.batches.Store(o.batches)
	sent.bytes.Store(o.bytes)
	sent.mapped.Store(o.mappedBytes)
	sent.step.Store(o.cursor.Step)
	o.running.delivered.Store(int64(o.options.Ticks().Sub(o.running.entered)))
}
