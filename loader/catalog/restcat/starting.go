package restcat

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// The delay between two requests for the configuration of a server that does not answer: at first firstDelay, then twice the previous
// one, up to longestDelay. Calls fail at once meanwhile.
const (
	firstDelay   = 500 * time.Millisecond
	longestDelay = 15 * time.Second
)

// starting gets the configuration of a server, without which no other request can be sent. It is safe for concurrent use.
type starting struct {
	client *client
	known  atomic.Bool   // the fields of client do not change anymore
	turn   chan struct{} // holds a value while a call asks; the fields below belong to that call

	failed error // the failure of the last request; nil: there was none
	next   time.Time
	delay  time.Duration
}

func newStarting(c *client) *starting { return &starting{client: c, turn: make(chan struct{}, 1)} }

// ready returns nil once the configuration is known. Otherwise, it asks for it, unless this has failed just now. Without a clock, it
// always asks.
func (s *starting) ready(ctx context.Context) error {
	if s.known.Load() {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.known.Load() {
		return nil
	}
	if s.failed != nil && s.client.now().Before(s.next) {
		return s.failed
	}
	err := s.client.ask(ctx)
	switch {
	case err == nil:
		s.known.Store(true)
		return nil
	case ctx.Err() != nil: // the next call asks
		return err
	case s.failed != nil: // the query is right, and may be repeated once the configuration is
		e := *fault.As(err)
		e.Kind, e.Faults, e.Err = fault.Unavailable, nil, err
		err = &e
	}
	s.delay = min(longestDelay, max(firstDelay, 2*s.delay))
	s.failed, s.next = err, s.client.now().Add(s.delay)
	return err
}
