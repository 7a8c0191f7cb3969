package flight

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader"
)

const (
	// checkEvery is how often stalled streams are checked.
	checkEvery = 250 * time.Millisecond
	// stuckAfter is how long a client may read nothing before the server stops expecting the memory
	// of its batches back, and parks its stream for others even if it has only just resumed. It is
	// longer than a training step.
	stuckAfter = 10 * time.Second
	// idleAfter is how long a stream may stall (for example, while its trainer evaluates) before it
	// is parked even if no other stream needs its memory or its slot.
	idleAfter = 5 * time.Minute
)

// DefaultStallTimeout is the default of Options.StallTimeout.
const DefaultStallTimeout = 2 * time.Hour

// parkableStream is a stream of batches that can be parked while it waits for its client. A parked
// stream has released its slot and the memory that it held; the request for its next batch resumes
// it at the same position.
//
//	         wait                 park
//	owned ─────────► waiting ─────────────► parked
//	  ▲                 │                      │
//	  └─────────────────┴──────────────────────┘
//	    wait returns; the next batch takes a slot
//
// The goroutine of the call owns the stream, and holds mu, except while it waits. Parking
// runs on a goroutine of its own, and only if it gets mu.
type parkableStream struct {
	loader.Stream
	inflight *frames.StreamInflight
	slot     *admission.Slot
	waits    *waits.Waits
	parked   *atomic.Bool // it is parked
	parking  atomic.Bool  // a goroutine parks it
	mu       sync.Mutex
}

// newParkableStream returns a stream that the caller owns. The caller releases the source.
func newParkableStream(source loader.Stream, p *frames.StreamInflight, at *admission.Slot, running *runningStream) *parkableStream {
	s := &parkableStream{Stream: source, inflight: p, slot: at, waits: running.waits, parked: &running.parked}
	s.mu.Lock()
	return s
}

// waiting calls wait, which waits for the client. The stream may be parked meanwhile, so wait may
// use nothing of the stream except batches that have a lease.
func (s *parkableStream) waiting(wait func() error) error {
	return s.waitingFor(waits.Trainer, wait)
}

// waitingFor is waiting, with another cause than the client.
func (s *parkableStream) waitingFor(c waits.Cause, wait func() error) error {
	defer s.waits.Begin(c)()
	s.mu.Unlock()
	defer s.mu.Lock()
	return wait()
}

// Next implements array.RecordReader. A stream that is parked resumes.
func (s *parkableStream) Next() bool {
	s.parked.Store(false)
	return s.Stream.Next()
}

// parking parks and ends streams whose clients take nothing. It is safe for concurrent use.
type parking struct {
	admission    *admission.Slots
	answers      *answers
	budget       *budget.Budget
	pressed      func() bool            // see Options.Pressed
	wanted       func(host string) bool // see Options.Wanted
	stallTimeout time.Duration

	mu      sync.Mutex
	streams map[*parkableStream]struct{}

	parked sync.WaitGroup // goroutines that park
}

// add adds a stream to those that are checked for stalls, until remove.
func (p *parking) add(one *parkableStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[one] = struct{}{}
}

// remove removes a stream that add has added.
func (p *parking) remove(one *parkableStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, one)
}

// parkFor parks a stream that has stalled for a time, because other streams need its memory or its
// slot. The source may refuse, because it has only just resumed, until the client is stuck: the
// client may be a rank that waits for another one, whose stream is among those that need the slot.
func (p *parking) parkFor(one *parkableStream, still time.Duration) { p.park(one, still < stuckAfter) }

// park parks a stream if it waits for its client. With pressed, the source may refuse, because it
// has only just resumed. Parking may wait for reads that the source has begun ahead.
func (p *parking) park(one *parkableStream, pressed bool) {
	if !one.parking.CompareAndSwap(false, true) {
		p.admission.Stay(&one.slot.Claim)
		return
	}
	p.parked.Go(func() {
		defer one.parking.Store(false)
		defer p.admission.Stay(&one.slot.Claim)
		if !one.mu.TryLock() {
			return
		}
		defer one.mu.Unlock()
		err := guarded("park", func() error {
			if one.Park(pressed) {
				one.parked.Store(true)
				one.slot.Release()
			}
			return nil
		})
		if err != nil {
			one.inflight.Disconnect(err)
		}
	})
}

// watch parks and ends stalled streams, until over is closed.
func (p *parking) watch(over <-chan struct{}) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	defer p.parked.Wait()
	queued := p.admission.Queued()
	for {
		select {
		case <-over:
			return
		case <-queued:
			queued = p.admission.Queued()
			p.makeRoom()
		case <-ticker.C:
			pressed := p.pressed()
			p.checkStalled(pressed)
			p.checkAnswers(pressed)
			p.admission.Relax(p.budget.Plentiful())
			p.makeRoom()
		}
	}
}

// checkStalled checks the stalled streams. It marks the batches of stuck streams, so that the
// budget does not wait for their memory; it ends streams that exceed the stall timeout; and it
// parks streams that are idle, or whose memory other streams need.
func (p *parking) checkStalled(pressed bool) {
	for _, one := range p.byProgress() {
		still := one.inflight.Still()
		if still < frames.StalledAfter {
			return
		}
		if still >= stuckAfter {
			one.inflight.MarkStalled()
		}
		switch {
		case still >= p.stallTimeout:
			one.endStalled(still)
		case still >= idleAfter:
			p.park(one, false)
		case pressed || p.wanted(one.slot.Claim.Client):
			p.parkFor(one, still)
		}
	}
}

// checkAnswers ends the calls whose clients do not read their answers.
func (p *parking) checkAnswers(pressed bool) {
	after := p.stallTimeout
	if pressed {
		after = min(after, stuckAfter)
	}
	p.answers.cutStalled(after)
}

// makeRoom parks as many stalled streams as other streams wait for slots.
func (p *parking) makeRoom() {
	if p.admission.Counts().Waiting == 0 {
		return
	}
	for _, one := range p.byProgress() {
		still := one.inflight.Still()
		if still < frames.StalledAfter {
			return
		}
		if p.admission.Yield(&one.slot.Claim) {
			p.parkFor(one, still)
		}
	}
}

// byProgress returns the streams in order of their clients' last progress, the longest stall first.
func (p *parking) byProgress() []*parkableStream {
	p.mu.Lock()
	seats := make([]*parkableStream, 0, len(p.streams))
	for one := range p.streams {
		seats = append(seats, one)
	}
	p.mu.Unlock()
	slices.SortFunc(seats, func(a, b *parkableStream) int { return cmp.Compare(a.inflight.Moved(), b.inflight.Moved()) })
	return seats
}

// endStalled ends a stream whose client has taken nothing for too long, unless the client
// waits for the server.
func (s *parkableStream) endStalled(still time.Duration) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.inflight.Disconnect(fault.New(fault.Unavailable, "the client has taken nothing for %s", still.Round(time.Second)).
		WithRemedy("resume from the cursor of the last batch; the server's stall_timeout limits how long a client may take nothing"))
}
