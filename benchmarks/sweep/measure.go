package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// measured has all timed passes of a form.
type measured struct {
	alone, shared, together, varied, echo []cost
	firsts, echoes                        []time.Duration // first batches of the crowd, and of the echo's, in all turns
}

// cost is what a pass cost.
type cost struct {
	cpu  float64 // seconds of the server
	took time.Duration
}

// measure takes all turns of a form.
func (s *sweep) measure(ctx context.Context, form string) (m measured, err error) {
	varied, err := s.variedQueries(ctx, form)
	if err != nil {
		return m, err
	}
	equal := query(form, "")
	for range s.turns.Rounds() {
		for _, of := range []struct {
			window string
			asked  []string
			to     *[]cost
		}{{"0", []string{equal}, &m.alone}, {s.window, []string{equal}, &m.shared}, {s.window, repeated(equal, s.jobs), &m.together}, {s.window, varied, &m.varied}} {
			one, err := s.jobsOf(ctx, form, of.window, of.asked)
			if err != nil {
				return m, err
			}
			*of.to = append(*of.to, one)
		}
		firsts, err := s.firsts(ctx, form)
		if err != nil {
			return m, err
		}
		m.firsts = append(m.firsts, firsts...)
		firsts, err = atOnce(ctx, s.echo.Address, repeated(echoed(form), s.crowd), true)
		if err != nil {
			return m, err
		}
		m.echoes = append(m.echoes, firsts...)
		one, err := s.echo.pass(ctx, form, s.jobs)
		if err != nil {
			return m, err
		}
		m.echo = append(m.echo, one)
	}
	return m, nil
}

// jobsOf times jobs that read a query each at once from a new server, after a pass of one that warms it.
func (s *sweep) jobsOf(ctx context.Context, form, window string, asked []string) (c cost, err error) {
	server, err := s.turns.Start(ctx, s.config, "--share-batches", window)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if _, err := atOnce(ctx, server.Address, []string{query(form, "")}, false); err != nil {
		return c, err
	}
	before, err := server.CPU()
	if err != nil {
		return c, err
	}
	begun := time.Now()
	if _, err := atOnce(ctx, server.Address, asked, false); err != nil {
		return c, err
	}
	c.took = time.Since(begun)
	after, err := server.CPU()
	c.cpu = after - before
	return c, err
}

// firsts returns how long each job of a crowd that starts at once waits for its first batch.
func (s *sweep) firsts(ctx context.Context, form string) (all []time.Duration, err error) {
	server, err := s.turns.Start(ctx, s.config, "--share-batches", s.window)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if _, err := atOnce(ctx, server.Address, []string{query(form, "")}, true); err != nil {
		return nil, err
	}
	return atOnce(ctx, server.Address, repeated(query(form, ""), s.crowd), true)
}

// repeated returns the queries of equal jobs.
func repeated(asked string, jobs int) []string { return slices.Repeat([]string{asked}, jobs) }
