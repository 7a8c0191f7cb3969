package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// kills: if a server is killed at random and restarted, its client gets every row once.
func (r *run) kills(ctx context.Context) error {
	want, err := r.reference(ctx, r.home, query{Dataset: "t"}, 0)
	if err != nil {
		return err
	}
	l := launch{home: r.home, budget: 256 * mebi}
	s, err := r.start(ctx, l)
	if err != nil {
		return err
	}
	defer func() { s.kill() }()
	c, err := dial(s.address, dialing{})
	if err != nil {
		return err
	}
	defer func() { c.close() }()
	random := rand.New(rand.NewPCG(12, 11))
	killed, next := 0, 1
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+r.sizes.kills/4)*r.patience)
	defer cancel()
	var starting error
	got, err := read(ctx, reading{
		query: query{Dataset: "t", BatchRows: 2048},
		where: func() *client {
			if !s.dead() {
				return c
			}
			c.close()
			again, failed := r.start(ctx, l)
			if failed == nil {
				s = again
				c, failed = dial(s.address, dialing{})
			}
			starting = errors.Join(starting, failed)
			return c
		},
		again: func(err error) bool { return starting == nil && (s.dead() || transient(err)) },
		after: func(batch int) {
			if batch >= next && killed < r.sizes.kills && !s.dead() {
				s.kill()
				killed++
				next = batch + 1 + random.IntN(max(1, r.requests*10/2048/r.sizes.kills))
			}
		},
	})
	if err = errors.Join(err, starting); err != nil {
		r.check(s, fmt.Sprintf("killed %d times", killed), err.Error(), "the reference rows", false)
		return nil
	}
	r.rows(s, fmt.Sprintf("killed %d times, resumed %d times", killed, got.resumed), got, want)
	return nil
}

// tickets: a server accepts no ticket with a flipped bit.
func (r *run) tickets(ctx context.Context) error {
	return r.against(ctx, launch{home: r.home, budget: 256 * mebi}, func(ctx context.Context, s *server) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		ctx, cancel := r.sure(ctx)
		defer cancel()
		p, err := c.plan(ctx, query{Dataset: "t"})
		if err != nil {
			return err
		}
		ticket := p.tickets[0]
		for bit := range 8 * len(ticket) {
			ticket[bit/8] ^= 1 << (bit % 8)
			if err := refusedTicket(ctx, c, ticket); err != nil {
				r.check(s, "bits flipped in a ticket", fmt.Sprintf("bit %d: %v", bit, err), "all refused", false)
				return nil
			}
			ticket[bit/8] ^= 1 << (bit % 8)
		}
		r.check(s, "bits flipped in a ticket", fmt.Sprintf("%d refused", 8*len(ticket)), "all refused", true)
		return nil
	})
}

// refusedTicket returns an error if a ticket is accepted, or if another reason than the ticket is
// given for its refusal.
func refusedTicket(ctx context.Context, c *client, ticket []byte) error {
	s, err := c.open(ctx, ticket)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err = s.Recv(); err == nil {
		return errors.New("a forged ticket was taken")
	}
	if !isKind(err, "invalid", "expired", "unauthenticated") {
		return fmt.Errorf("a forged ticket ended otherwise: %w", err)
	}
	return nil
}

// damage: a damaged or truncated data file either ends the stream with an error or does not change
// the rows. Without page checksums, some changed values cannot be detected: the attack counts them.
// The server continues.
func (r *run) damage(ctx context.Context) error {
	w, err := r.small(ctx, "damage")
	if err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	want, err := r.reference(ctx, w.home, query{Dataset: "small"}, 0)
	if err != nil {
		return err
	}
	return r.against(ctx, launch{home: w.home, budget: 256 * mebi}, func(ctx context.Context, s *server) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		random := rand.New(rand.NewPCG(12, 13))
		training, staging := smallTables()
		found := map[string]int{}
		for i := range r.damages {
			path := w.path([]shape{training, staging}[i%2], random.IntN(4))
			limit, cancel := r.sure(ctx)
			word, err := harmed(limit, c, path, random, want)
			cancel()
			if err != nil {
				return fmt.Errorf("damage %d: %w", i, err)
			}
			found[word]++
		}
		r.check(s, fmt.Sprintf("%d damaged files", r.damages),
			fmt.Sprintf("%d refused, %d unharmed, %d with another value that no checksum guards", found["refused"], found["unharmed"], found["silent"]), "no crash, no row lost", true)
		got, err := read(ctx, reading{query: query{Dataset: "small"}, where: func() *client { return c }})
		if err != nil {
			return err
		}
		r.rows(s, "the whole files again", got, want)
		return nil
	})
}

// harmed damages a file, reads the small dataset, and restores the file. It returns "refused",
// "unharmed", or, for a wrong value, "silent".
func harmed(ctx context.Context, c *client, path string, random *rand.Rand, want *digest) (word string, err error) {
	whole, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, damaged(whole, random), 0o600); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, whole, 0o600)) }()
	got, err := read(ctx, reading{query: query{Dataset: "small"}, where: func() *client { return c }})
	var f *refusal
	switch {
	case err == nil && same(&got.digest, want) == nil:
		return "unharmed", nil
	case err == nil && got.digest.rows != want.rows:
		return "", fmt.Errorf("%d rows came as if they were all of %d", got.digest.rows, want.rows)
	case err == nil:
		return "silent", nil
	case errors.As(err, &f) && f.kind != "" && f.kind != "internal":
		return "refused", nil
	}
	return "", err
}

// damaged returns a file's bytes, some of them changed or cut off.
func damaged(whole []byte, random *rand.Rand) []byte {
	if random.IntN(4) == 0 {
		return whole[:random.IntN(len(whole))]
	}
	out := append([]byte(nil), whole...)
	for range 1 + random.IntN(3) {
		out[random.IntN(len(out))] ^= byte(1 + random.IntN(255))
	}
	return out
}
