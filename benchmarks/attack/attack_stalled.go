package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// settled is the time for which a crowd stalls before the attack continues: longer than the
	// second after which the server may close the connections of stalled clients.
	settled = 3 * time.Second
	// sleepers is the number of stalled clients that continue to read in the end.
	sleepers = 4
)

// stalled48: the bytes that the server has handed to gRPC must be charged.
func (r *run) stalled48(ctx context.Context) error {
	return r.stalled(ctx, gibi, crowded{n: 48, query: query{Dataset: "t", BatchRows: 65_536}})
}

// stalledWindows: clients with large flow-control windows. The clients' memory holds the unread
// bytes, so a quick run has fewer clients and a smaller budget.
func (r *run) stalledWindows(ctx context.Context) error {
	budget, how := gibi, crowded{n: 48, query: query{Dataset: "t", BatchRows: 65_536}}
	if r.quick {
		budget, how = 256*mebi, crowded{n: 12, query: query{Dataset: "t", BatchRows: 32_768}}
	}
	how.dial.window = int32(64 * mebi)
	return r.stalled(ctx, budget, how)
}

// stalled64: on a small budget, clients that read take precedence.
func (r *run) stalled64(ctx context.Context) error {
	return r.stalled(ctx, 256*mebi, crowded{n: 64, query: query{Dataset: "t"}})
}

// stalled lets a crowd stall. Streams of another client must meanwhile complete as if they were
// alone, and the stalled clients must get all rows in the end.
func (r *run) stalled(ctx context.Context, budget int64, how crowded) error {
	whole := query{Dataset: "t"}
	want, err := r.reference(ctx, r.home, whole, 0)
	if err != nil {
		return err
	}
	how.dial.from = hostile
	return r.against(ctx, launch{home: r.home, budget: budget}, func(ctx context.Context, s *server) error {
		ctx, cancel := r.sure(ctx)
		defer cancel()
		how.n -= sleepers
		asleep, many, err := falling(ctx, s, how)
		if err != nil {
			return err
		}
		defer many.close()
		wait(ctx, settled)
		r.check(s, "who stalls", many.String(), "the others get a retry delay", many.politely() && !s.dead())
		if s.dead() {
			return nil
		}
		c, err := dial(s.address, dialing{from: peaceful})
		if err != nil {
			return err
		}
		defer c.close()
		for i := range 2 {
			got, err := read(ctx, reading{query: whole, where: func() *client { return c }})
			if err == nil {
				err = same(&got.digest, want)
			}
			r.verdict(s, fmt.Sprintf("healthy stream %d", i+1), err)
		}
		resumed, err := waking(asleep, want)
		r.verdict(s, fmt.Sprintf("%d stalled clients continued, resumed %d times", sleepers, resumed), err)
		return nil
	})
}

// falling starts sleepers and a crowd that stalls.
func falling(ctx context.Context, s *server, how crowded) ([]*sleeper, *crowd, error) {
	var asleep []*sleeper
	for range sleepers {
		one, err := sleep(ctx, s, how.query)
		if err != nil {
			return nil, nil, err
		}
		asleep = append(asleep, one)
	}
	many, err := gather(ctx, s.address, how)
	return asleep, many, err
}

// waking lets sleepers continue, and compares their rows. It returns the number of times that they
// resumed from their cursors.
func waking(asleep []*sleeper, want *digest) (resumed int, err error) {
	for _, one := range asleep {
		got, failed := one.woken()
		if failed == nil {
			failed = same(&got.digest, want)
		}
		err = errors.Join(err, failed)
		resumed += got.resumed
	}
	return resumed, err
}

// ratio compares the speed of a stream alone with its speed beside 64 stalled ones, in turns on one
// server.
func (r *run) ratio(ctx context.Context) error {
	const least = 0.8
	return r.against(ctx, launch{home: r.home, budget: gibi}, func(ctx context.Context, s *server) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(r.rounds+1)*r.patience)
		defer cancel()
		if _, err := r.speed(ctx, s); err != nil { // files and plans are known from here on
			return err
		}
		var alone, beside []float64
		for range r.rounds {
			one, err := r.speed(ctx, s)
			if err != nil {
				return err
			}
			many, err := gather(ctx, s.address, crowded{n: 64, query: query{Dataset: "t"}, dial: dialing{from: hostile}})
			if err != nil {
				return err
			}
			if wait(ctx, settled); s.dead() {
				many.close()
				return nil
			}
			other, err := r.speed(ctx, s)
			many.close()
			if err != nil {
				r.check(s, "a stream beside 64 stalled", err.Error(), "it ends well", false)
				return nil
			}
			alone, beside = append(alone, one), append(beside, other)
			wait(ctx, settled)
		}
		share := median(beside) / median(alone)
		r.check(s, "speed beside 64 stalled, of its speed alone", fmt.Sprintf("%.2f (%.0f MB/s alone)", share, median(alone)/1e6), fmt.Sprintf("at least %.1f", least), share >= least)
		return nil
	})
}

// speed reads a whole table and returns the bytes per second.
func (r *run) speed(ctx context.Context, s *server) (float64, error) {
	c, err := dial(s.address, dialing{from: peaceful, as: s.as})
	if err != nil {
		return 0, err
	}
	defer c.close()
	begun := time.Now()
	p, err := c.plan(ctx, query{Dataset: "t"})
	if err != nil {
		return 0, err
	}
	rows, err := c.open(ctx, p.tickets[0])
	if err != nil {
		return 0, err
	}
	defer rows.close()
	if err := rows.skip(-1); err != nil {
		return 0, err
	}
	return float64(rows.bytes) / time.Since(begun).Seconds(), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
