package passes

import (
	"context"
	"errors"
	"flag"
	"fmt"
)

// Turns configures how variants of a benchmark take turns: each turn starts a server, which reads a
// query twice. The second pass is timed.
type Turns struct {
	program string
	rounds  int
	logs    bool
}

// Flags adds flags for the turns.
func (t *Turns) Flags(flags *flag.FlagSet) {
	flags.StringVar(&t.program, "program", "bin/penstock", "the server")
	flags.IntVar(&t.rounds, "rounds", 5, "turns of each")
	flags.BoolVar(&t.logs, "logs", false, "show what servers log")
}

// Rounds returns the number of turns per variant.
func (t *Turns) Rounds() int { return t.rounds }

// Start starts the server of a turn, with settings as more arguments. The caller closes it.
func (t *Turns) Start(ctx context.Context, config string, settings ...string) (*Server, error) {
	return Start(ctx, t.program, config, t.logs, settings...)
}

// Medians returns the pass with the median time for each query to servers of a configuration.
func (t *Turns) Medians(ctx context.Context, config string, queries []string) ([]Pass, error) {
	measured := make([][]Pass, len(queries))
	for range t.rounds {
		for i, query := range queries {
			p, err := t.turn(ctx, config, query)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", query, err)
			}
			measured[i] = append(measured[i], p)
		}
	}
	medians := make([]Pass, len(queries))
	for i, all := range measured {
		medians[i] = Middle(all)
	}
	return medians, nil
}

func (t *Turns) turn(ctx context.Context, config, query string) (p Pass, err error) {
	server, err := t.Start(ctx, config)
	if err != nil {
		return Pass{}, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if _, err := server.Read(ctx, query); err != nil {
		return Pass{}, err
	}
	return server.Read(ctx, query)
}
