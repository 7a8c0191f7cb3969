// Command counting measures the cost of an exact count: the time until the endpoints of T
// (benchmarks/README.md) under a filter are available with `count: exact`, compared with an epoch
// of the same rows. Both are the second of their kind on their server, and the count is not cached.
//
//	go run ./benchmarks/counting [-program bin/penstock] [-full .bench/full] [-rounds 5]
//
// The command prints medians, and exits with 1 if a count takes more than 35 % of an epoch.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/penstock/penstock/benchmarks/passes"
)

// maxShare is the maximum duration of a count as a share of an epoch.
const maxShare = 0.35

// filters keep about one row in two, one in ten, and nearly all.
func filters() []string { return []string{"f0 < 0.5", "f0 < 0.1 AND i0 >= 0", "i1 <> 3"} }

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "counting:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("counting", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "where T is: make costs makes it")
	var each passes.Turns
	each.Flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	fmt.Println("| filter | rows | epoch, seconds | count, seconds | share | at most |")
	fmt.Println("|---|---:|---:|---:|---:|---:|")
	var slow error
	for _, filter := range filters() {
		var turns []turn
		for range each.Rounds() {
			t, err := measure(ctx, &each, filepath.Join(*full, "penstock.yaml"), filter)
			if err != nil {
				return fmt.Errorf("%s: %w", filter, err)
			}
			turns = append(turns, t)
		}
		slow = errors.Join(slow, report(filter, turns))
	}
	return slow
}

// turn has an epoch, and a count of its rows.
type turn struct {
	epoch passes.Pass
	count time.Duration
}

func (t turn) share() float64 { return t.count.Seconds() / t.epoch.Took.Seconds() }

// measure starts a server. Counts are cached by plan, so the warm-up counts another epoch, which has
// the rows in a different order.
func measure(ctx context.Context, each *passes.Turns, config, filter string) (t turn, err error) {
	server, err := each.Start(ctx, config)
	if err != nil {
		return turn{}, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	query := func(epoch int, more string) string {
		return fmt.Sprintf(`{"dataset": "t", "filter": %q, "order": "shuffled", "shuffle": "splits", "epoch": %d%s}`, filter, epoch, more)
	}
	for range 2 {
		if t.epoch, err = server.Read(ctx, query(1, "")); err != nil {
			return turn{}, err
		}
	}
	for _, epoch := range []int{0, 1} {
		if t.count, err = server.Plan(ctx, query(epoch, `, "count": "exact"`)); err != nil {
			return turn{}, err
		}
	}
	return t, nil
}

// report prints medians of a filter's turns, and returns an error if counting takes too long.
func report(filter string, turns []turn) error {
	median := func(of func(turn) float64) float64 {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = of(t)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	share := median(turn.share)
	fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %.2f |\n", filter, turns[0].epoch.Rows,
		median(func(t turn) float64 { return t.epoch.Took.Seconds() }), median(func(t turn) float64 { return t.count.Seconds() }), share, maxShare)
	if share > maxShare {
		return fmt.Errorf("a count under %s takes %.2f of an epoch", filter, share)
	}
	return nil
}
