package flight

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
)

const (
	// lookEvery is how often streams that stand still are looked at.
	lookEvery = 250 * time.Millisecond
	// stuckAfter is how long a client may take nothing before its batches no longer
	// count as memory that comes back by itself: longer than a training step.
	stuckAfter = 10 * time.Second
	// idleAfter is how long a stream may stand still before it is parked although
	// nobody waits for what it holds: a trainer that evaluates.
	idleAfter = 5 * time.Minute
)

// DefaultStallTimeout is the default of Options.StallTimeout.
const DefaultStallTimeout = 2 * time.Hour

// seat is a stream's source while the stream is served. Its owner has it, save
// while it waits for the client: then it may be parked, which gives back what
// the source holds, and its place. What is parked goes on where it stood when it
// is asked for more.
type seat struct {
	loader.Stream
	passage *passage
	place   *place
	parking atomic.Bool // it is being parked
	mu      sync.Mutex  // held by the owner, save while it waits for the client
}

// newSeat gives a source to its owner, who releases it.
func newSeat(source loader.Stream, p *passage, at *place) *seat {
	s := &seat{Stream: source, passage: p, place: at}
	s.mu.Lock()
	return s
}

// waiting calls what waits for the client. Meanwhile the source may be parked:
// nothing of it may be used but what was leased.
func (s *seat) waiting(wait func() error) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	return wait()
}

// park parks a stream, if its owner waits for the client. Under pressure it is for
// others' sake, and the source may refuse: it has only just begun anew. It may wait
// for what the source does ahead, and so has a goroutine of its own.
func (s *Server) park(one *seat, pressed bool) {
	if !one.parking.CompareAndSwap(false, true) {
		return
	}
	s.parks.Add(1)
	s.parked.Go(func() {
		defer s.parks.Add(-1)
		defer one.parking.Store(false)
		if !one.mu.TryLock() {
			return
		}
		defer one.mu.Unlock()
		err := guarded("park", func() error {
			if one.Park(pressed) {
				one.place.leave()
			}
			return nil
		})
		if err != nil {
			one.passage.lose(err)
		}
	})
}

// watchSeats parks and ends streams that stand still, until over is closed.
func (s *Server) watchSeats(over <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer s.parked.Wait()
	for {
		select {
		case <-over:
			return
		case <-s.crowded:
			s.makeRoom()
		case <-ticker.C:
			s.lookAtSeats(s.options.Pressed())
			s.makeRoom()
		}
	}
}

// lookAtSeats tells the budget of the streams that stand still, parks those that do so
// for long, or for a moment if others lack memory, those first that stand still
// longest; and ends those that nobody will read on.
func (s *Server) lookAtSeats(pressed bool) {
	for _, one := range s.stillest() {
		still := one.passage.still()
		if still < stalledAfter {
			return
		}
		if still >= stuckAfter {
			one.passage.stuck()
		}
		switch {
		case still >= s.options.StallTimeout:
			one.endStalled(still)
		case still >= idleAfter:
			s.park(one, false)
		case pressed || s.options.Wanted(one.place.host):
			s.park(one, true)
		}
	}
}

// makeRoom parks streams that stand still, as many as others wait for their places.
func (s *Server) makeRoom() {
	waiting := int64(s.Waiting())
	if waiting == 0 {
		return
	}
	for _, one := range s.stillest() {
		if one.passage.still() < stalledAfter || s.parks.Load() >= waiting {
			return
		}
		if s.admission.wanted(one.place) {
			s.park(one, true)
		}
	}
}

// stillest returns the streams, those first that stand still longest.
func (s *Server) stillest() []*seat {
	s.mu.Lock()
	seats := make([]*seat, 0, len(s.seats))
	for one := range s.seats {
		seats = append(seats, one)
	}
	s.mu.Unlock()
	slices.SortFunc(seats, func(a, b *seat) int { return cmp.Compare(a.passage.moved.Load(), b.passage.moved.Load()) })
	return seats
}

// endStalled ends a stream whose client has taken nothing for too long, unless
// it is the server that it waits for.
func (s *seat) endStalled(still time.Duration) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.passage.lose(fault.New(fault.Unavailable, "the client has taken nothing for %s", still.Round(time.Second)).
		WithRemedy("go on with the cursor of the last batch; the server's stall_timeout says how long a client may wait"))
}
