package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// gathering limits the time until a crowd has its first batches.
const gathering = 45 * time.Second

// crowd is many clients that read one batch and stop.
type crowd struct {
	clients []*client
	streams []*stream
	errs    []error // of those that got no batch
}

// crowded are the settings of a crowd that stalls.
type crowded struct {
	n      int
	query  query
	dial   dialing
	shared bool // all over one connection
}

// gather opens the streams of a crowd concurrently. Streams that the server refuses are not part of
// it.
func gather(ctx context.Context, address string, how crowded) (*crowd, error) {
	out := &crowd{}
	connections := how.n
	if how.shared {
		connections = 1
	}
	for range connections {
		c, err := dial(address, how.dial)
		if err != nil {
			out.close()
			return nil, err
		}
		out.clients = append(out.clients, c)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range how.n {
		all.Go(func() {
			s, err := stall(ctx, out.clients[i%connections], how.query)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.errs = append(out.errs, err)
				return
			}
			out.streams = append(out.streams, s)
		})
	}
	all.Wait()
	return out, nil
}

// stall reads the first batch of a query, and no more.
func stall(ctx context.Context, c *client, q query) (*stream, error) {
	limit, cancel := context.WithTimeout(ctx, gathering)
	defer cancel()
	p, err := c.plan(limit, q)
	if err != nil {
		return nil, err
	}
	s, err := c.open(ctx, p.tickets[0])
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(limit, s.close)() // stops the watch, unless time was over
	if err := s.skip(1); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends all streams and connections.
func (c *crowd) close() {
	for _, s := range c.streams {
		s.close()
	}
	for _, each := range c.clients {
		each.close()
	}
}

// String returns the number of clients that have a batch, and the errors of the others.
func (c *crowd) String() string {
	text := fmt.Sprintf("%d of %d stalled", len(c.streams), len(c.streams)+len(c.errs))
	if len(c.errs) > 0 {
		text += fmt.Sprintf("; one of the others: %v", c.errs[0])
	}
	return text
}

// politely reports whether all clients without a batch got a retry delay.
func (c *crowd) politely() bool {
	return !slices.ContainsFunc(c.errs, func(err error) bool { return !isKind(err, "exhausted", "unavailable") })
}

// sleeper reads a query, sleeps after its first batch until it is woken, and then continues,
// with its cursor if the server has ended its stream.
type sleeper struct {
	asleep, wake chan struct{}
	done         chan struct{}
	got          *gotten
	err          error
}

func sleep(ctx context.Context, of *server, q query) (*sleeper, error) {
	c, err := dial(of.address, dialing{from: hostile})
	if err != nil {
		return nil, err
	}
	s := &sleeper{asleep: make(chan struct{}), wake: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer c.close()
		s.got, s.err = read(ctx, reading{
			query: q, where: func() *client { return c }, again: of.again, pause: time.Second,
			after: func(batch int) {
				if batch == 1 {
					close(s.asleep)
					select {
					case <-s.wake:
					case <-ctx.Done():
					}
				}
			},
		})
	}()
	select {
	case <-s.asleep:
	case <-s.done:
		return nil, fmt.Errorf("a client got no batch: %w", errors.Join(s.err, ctx.Err()))
	}
	return s, nil
}

// woken reads the stream to its end.
func (s *sleeper) woken() (*gotten, error) {
	close(s.wake)
	<-s.done
	return s.got, s.err
}

// transient reports whether a client may retry after an error.
func transient(err error) bool { return isKind(err, "exhausted", "unavailable") }

// lost reports whether a client has lost its stream, as may happen after a second without reading,
// and must resume from its cursor.
func (s *server) lost(err error) bool { return isKind(err, "unavailable") && !s.dead() }

// again reports whether a client must resume from its cursor.
func (s *server) again(err error) bool { return transient(err) && !s.dead() }
