package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	churners  = 12
	givenBack = 30 * time.Second // after the last stream
	kept      = 100 * 1_000_000  // bytes above those after one pass
	strays    = 2                // goroutines more than before: a timer's, a collector's
)

// churned lets clients connect and leave for minutes. Memory and goroutines must then be as they
// were after one pass.
func (r *run) churned(ctx context.Context) error {
	return r.against(ctx, launch{home: r.home, budget: gibi}, func(ctx context.Context, s *server) error {
		if err := r.visit(ctx, s, -1); err != nil { // one pass
			return err
		}
		wait(ctx, settled)
		before, err := s.goroutines(ctx)
		if err != nil {
			return err
		}
		memory := s.resident()
		// A call may fail with its deadline before its context ends.
		end := time.Now().Add(time.Duration(r.churn) * time.Second)
		limit, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		visits := make([]int, churners)
		err = together(churners, func(i int) error {
			random := rand.New(rand.NewPCG(12, uint64(i)))
			for limit.Err() == nil && !s.dead() {
				if err := r.visit(limit, s, random.IntN(6)); err != nil && limit.Err() == nil && time.Now().Before(end) {
					return err
				}
				visits[i]++
			}
			return nil
		})
		if err != nil {
			r.check(s, "every visit ends as it should", err.Error(), "", false)
		}
		total := 0
		for _, n := range visits {
			total += n
		}
		r.returned(ctx, s, total, before, memory)
		return nil
	})
}

// returned checks that a server's goroutines and memory after a number of visits are as they were
// before.
func (r *run) returned(ctx context.Context, s *server, visits, before int, memory int64) {
	after, now, idle := 0, int64(0), int64(0)
	eventually(ctx, givenBack, func() bool {
		var err error
		if idle, err = s.idle(ctx); err != nil {
			return false
		}
		now = s.resident()
		after, err = s.goroutines(ctx)
		return err == nil && after <= before+strays && now <= memory+kept+idle
	})
	r.check(s, fmt.Sprintf("resident memory after %d visits", visits), sized(now), fmt.Sprintf("%s + 100 MB + %s that is kept", sized(memory), sized(idle)), now <= memory+kept+idle)
	r.check(s, "memory that is kept for later streams", sized(idle), sized(gibi/2), idle <= gibi/2)
	r.check(s, "goroutines", strconv.Itoa(after), strconv.Itoa(before), after > 0 && after <= before+strays)
}

// visit is one client's visit: it reads a whole table (-1), reads a few batches and leaves, resumes
// from a cursor, requests something that does not exist, or stalls.
func (r *run) visit(ctx context.Context, s *server, kind int) error {
	c, err := dial(s.address, dialing{})
	if err != nil {
		return err
	}
	defer c.close()
	where := func() *client { return c }
	q := query{Dataset: "t", BatchRows: 16_384}
	switch kind {
	case 0: // fails when it is planned
		if _, err := c.plan(ctx, query{Dataset: "t", Columns: []string{"nothing"}}); !isKind(err, "invalid") {
			return fmt.Errorf("a column that there is not: %w", err)
		}
	case 1: // a ticket without a valid signature
		p, err := c.plan(ctx, q)
		if err != nil {
			return forgiven(err)
		}
		p.tickets[0][len(p.tickets[0])/2] ^= 1
		return forgiven(refusedTicket(ctx, c, p.tickets[0]))
	case 2: // cut, resumed, and cut
		for range 3 {
			got, err := read(ctx, reading{query: q, limit: 40_000, where: where})
			if err != nil {
				return forgiven(err)
			}
			q.Cursor = got.cursor
		}
	case 3: // stalled
		rows, err := stall(ctx, c, q)
		if err != nil {
			return forgiven(err)
		}
		wait(ctx, 2*time.Second)
		rows.close()
	case 4: // wide rows, cut
		_, _, err := fitting(ctx, c, query{Dataset: "wide", BatchRows: 4096}, 10_000, nil)
		return forgiven(err)
	default:
		_, err := read(ctx, reading{query: q, where: where, again: s.again, pause: time.Second})
		return forgiven(err)
	}
	return nil
}

// forgiven returns nil for an error after which a client may try again.
func forgiven(err error) error {
	if err != nil && transient(err) {
		return nil
	}
	return err
}
