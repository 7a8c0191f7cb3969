package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// each runs an attack against a server of each budget.
func (r *run) each(ctx context.Context, harm func(context.Context, *server) error) error {
	for _, budget := range r.budgets {
		err := r.against(ctx, launch{home: r.home, budget: budget}, func(ctx context.Context, s *server) error {
			ctx, cancel := r.sure(ctx)
			defer cancel()
			return harm(ctx, s)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// together runs readers concurrently, and joins their errors.
func together(n int, one func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = one(i) })
	}
	all.Wait()
	failed := 0
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d: %w", failed, n, first)
}

// verdict checks that readers had no errors.
func (r *run) verdict(s *server, what string, err error) {
	figure := "all equal"
	if err != nil {
		figure = err.Error()
	}
	r.check(s, what, figure, "the reference rows", err == nil)
}

// peakActive: eight jobs with eight shards each, in batches of several sizes.
func (r *run) peakActive(ctx context.Context) error {
	const shards, jobs = 8, 8
	shardOf := func(i int) query { return query{Dataset: "t", Lanes: shards, Shard: &shard{i, shards}} }
	var want []*digest
	for i := range shards {
		d, err := r.reference(ctx, r.home, shardOf(i), 0)
		if err != nil {
			return err
		}
		want = append(want, d)
	}
	return r.each(ctx, func(ctx context.Context, s *server) error {
		r.verdict(s, "64 streams that read", together(shards*jobs, func(i int) error {
			c, err := dial(s.address, dialing{})
			if err != nil {
				return err
			}
			defer c.close()
			q := shardOf(i % shards)
			q.BatchRows = 1024 * (1 + i/shards)
			got, err := read(ctx, reading{query: q, where: func() *client { return c }, again: s.again, pause: time.Second})
			if err != nil {
				return err
			}
			return same(&got.digest, want[i%shards])
		}))
		return nil
	})
}

// peakStalled: 64 clients, and then many more, stall, each over its own connection or all over one.
// In a quick run, the many share one.
func (r *run) peakStalled(ctx context.Context) error {
	crowds := []crowded{{n: 64}, {n: r.sizes.stalled, shared: true}}
	if !r.quick {
		crowds = append(crowds, crowded{n: r.sizes.stalled})
	}
	return r.each(ctx, func(ctx context.Context, s *server) error {
		for _, how := range crowds {
			how.query, how.dial.from = query{Dataset: "t"}, hostile
			many, err := gather(ctx, s.address, how)
			if err != nil {
				return err
			}
			wait(ctx, settled)
			what := fmt.Sprintf("%d that stall, a connection each", how.n)
			if how.shared {
				what = fmt.Sprintf("%d that stall, over one connection", how.n)
			}
			r.check(s, what, many.String(), "the others get a retry delay", many.politely() && !s.dead())
			many.close()
			if s.dead() {
				return nil
			}
		}
		return nil
	})
}

// peakBatches: clients request batches of 65,536 rows of 8 KB, and of 8,192 rows of a megabyte, and
// then the number of rows that the refusal names.
func (r *run) peakBatches(ctx context.Context) error {
	const longLimit = 256
	wide, err := r.reference(ctx, r.home, query{Dataset: "wide"}, wideLimit)
	if err != nil {
		return err
	}
	long, err := r.reference(ctx, r.home, query{Dataset: "long", BatchRows: 8}, longLimit)
	if err != nil {
		return err
	}
	return r.each(ctx, func(ctx context.Context, s *server) error {
		r.verdict(s, "4 of the widest and 4 of the longest", together(8, func(i int) error {
			c, err := dial(s.address, dialing{})
			if err != nil {
				return err
			}
			defer c.close()
			q, limit, want := query{Dataset: "wide", BatchRows: 65_536}, int64(wideLimit), wide
			if i%2 == 1 {
				q, limit, want = query{Dataset: "long", BatchRows: 8192}, longLimit, long
			}
			got, _, err := fitting(ctx, c, q, limit, s.lost)
			if err != nil {
				return err
			}
			return same(&got.digest, want)
		}))
		return nil
	})
}

// peakLanes: a stream with the largest number of lanes holds a row group for each. If the budget is
// too small for them, the error must say so.
func (r *run) peakLanes(ctx context.Context) error {
	q := query{Dataset: "many", Lanes: r.lanes, BatchRows: 2 * r.lanes}
	want, err := r.reference(ctx, r.home, q, 0)
	if err != nil {
		return err
	}
	return r.each(ctx, func(ctx context.Context, s *server) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		what := fmt.Sprintf("%d lanes", r.lanes)
		got, err := read(ctx, reading{query: q, where: func() *client { return c }})
		if isKind(err, "exhausted") {
			r.check(s, what, err.Error(), "the reference rows, or exhausted on a small budget", s.budget < gibi)
			return nil
		}
		if err != nil {
			return err
		}
		r.rows(s, what, got, want)
		return nil
	})
}

// peakSpill: eight concurrent joins with staging rows that do not fit in memory. Their filters are
// different texts that drop the same rows, so no join can use another's build side.
func (r *run) peakSpill(ctx context.Context) error {
	joined := func(i int) query {
		return query{Dataset: map[string]any{
			"training": map[string]any{"table": "bench.spill"}, "key": []string{keyName},
			"staging": []any{map[string]any{"table": "bench.spill_features", "name": "features", "filter": fmt.Sprintf("fn0 > %d", -1-i)}},
		}}
	}
	want, err := r.reference(ctx, r.home, joined(0), 0)
	if err != nil {
		return err
	}
	return r.each(ctx, func(ctx context.Context, s *server) error {
		r.verdict(s, "8 joins that do not fit", together(8, func(i int) error {
			c, err := dial(s.address, dialing{})
			if err != nil {
				return err
			}
			defer c.close()
			got, err := read(ctx, reading{query: joined(i), where: func() *client { return c }, again: s.again, pause: time.Second})
			if err != nil {
				return err
			}
			return same(&got.digest, want)
		}))
		return nil
	})
}
