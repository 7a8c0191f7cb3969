package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Addresses of clients: attackers and readers have different hosts.
const (
	hostile  = "127.0.0.1"
	peaceful = "127.0.0.2"
)

// against starts a server, attacks it, and checks its peak memory and its exit. An error of the
// attack is a failed check.
func (r *run) against(ctx context.Context, l launch, harm func(context.Context, *server) error) error {
	s, err := r.start(ctx, l)
	if err != nil {
		return err
	}
	err = harm(ctx, s)
	if s.killed.Load() {
		err = errors.New("the server was killed: it held too much memory")
	} else if s.dead() {
		err = fmt.Errorf("the server ended by itself: %w", s.result)
	}
	if err != nil {
		r.check(s, "went as it should", err.Error(), "", false)
	}
	if _, failed := s.end(); failed != nil {
		r.check(s, "ends after SIGTERM", failed.Error(), "", false)
	}
	r.peak(s)
	return ctx.Err()
}

// check adds a check of a server.
func (r *run) check(s *server, what, figure, bound string, pass bool) {
	r.add(line{Attack: r.name, Budget: sized(s.budget), Check: what, Figure: figure, Bound: bound, Pass: pass})
}

// peak checks a server's peak memory.
func (r *run) peak(s *server) {
	peak, most := s.peak.Load(), bound(s.budget)
	figure := sized(peak)
	switch {
	case s.killed.Load() && peak <= most:
		figure += ", killed for -ceiling"
	case s.killed.Load():
		figure += ", when it was killed"
	}
	r.check(s, "VmHWM", figure, sized(most), peak <= most && !s.killed.Load())
}

// rows checks that rows equal the reference.
func (r *run) rows(s *server, what string, got *gotten, want *digest) {
	err := same(&got.digest, want)
	figure := got.digest.String()
	if err != nil {
		figure = err.Error()
	}
	r.check(s, what, figure, "the reference rows", err == nil)
}

// reference returns the digest of a query's rows from a server that is not attacked, with ample
// memory and small batches. If the query has several shards, each has one lane.
func (r *run) reference(ctx context.Context, home string, q query, limit int64) (*digest, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s %s %d", home, text, limit)
	if d := r.known[name]; d != nil {
		return d, nil
	}
	s, err := r.start(ctx, launch{home: home, budget: 2 * gibi})
	if err != nil {
		return nil, err
	}
	defer s.end() //nolint:errcheck // nothing was done to it
	c, err := dial(s.address, dialing{})
	if err != nil {
		return nil, err
	}
	defer c.close()
	if q.BatchRows == 0 {
		q.BatchRows = max(256, q.Lanes)
	}
	got, err := read(ctx, reading{query: q, limit: limit, where: func() *client { return c }})
	if err != nil {
		return nil, fmt.Errorf("read the reference: %w", err)
	}
	r.known[name] = &got.digest
	return &got.digest, nil
}

// fitting reads a query. If the server refuses a batch, it continues with the number of rows that
// the refusal names, or after the delay. After an error for which again returns true, it resumes
// from its cursor. It returns the number of refused batches.
func fitting(ctx context.Context, c *client, q query, limit int64, again func(error) bool) (got *gotten, refusals int, err error) {
	const most = 3
	for asked := 1; ; asked++ {
		got, err = read(ctx, reading{query: q, limit: limit, where: func() *client { return c }, again: again, pause: time.Second})
		var f *refusal
		if !errors.As(err, &f) || !isKind(err, "exhausted", "invalid") || ctx.Err() != nil {
			return got, refusals, err
		}
		n := fits(f, q.BatchRows)
		switch {
		case n > 0 && refusals < most:
			q.BatchRows = n
			refusals++
		case n == 0 && f.after > 0 && asked <= most:
			wait(ctx, f.after)
		default:
			return got, refusals, fmt.Errorf("refused %d times, the last time without a batch_rows that fits: %w", asked, err)
		}
	}
}

// sure limits the time of a call that must end.
func (r *run) sure(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.patience, fmt.Errorf("it had not ended after %s", r.patience))
}

// folder creates an empty folder for one attack.
func (r *run) folder(name string) (string, error) {
	path := filepath.Join(r.scratch, name)
	return path, errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o750))
}

// eventually repeats a check until it returns true or the time is over.
func eventually(ctx context.Context, most time.Duration, done func() bool) bool {
	limit, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		if done() {
			return true
		}
		select {
		case <-limit.Done():
			return done()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
