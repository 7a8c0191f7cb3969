// Command attack attacks a server from outside: with clients that stall, request absurd batches or
// reconnect a thousand times, with storage that hangs, with files that claim a wrong size. It
// starts the program under a watchdog, attacks it, and compares rows, resident memory and times
// with the promises.
//
//	go run ./benchmarks/attack [-program bin/penstock] [-quick] [-untimed] [-only stalled,churn] [-json FILE]
//
// Each line of the output is one check. The exit code is 1 if a check fails. The command needs
// Linux, for /proc. Tables and logs are in .bench/attack.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := attackAll(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// attack is one attack on a server.
type attack struct {
	name  string
	about string
	do    func(*run, context.Context) error
	timed bool // it compares speeds: not for machines that others use too
}

// attacks are all attacks, in the order in which they run.
func attacks() []attack {
	return []attack{
		{"batch-1048576", "a batch of 1,048,576 rows of 20 list columns", func(r *run, ctx context.Context) error { return r.hugeBatch(ctx, 1<<20) }, false},
		{"batch-16777216", "a batch of 16,777,216 rows", func(r *run, ctx context.Context) error { return r.hugeBatch(ctx, 1<<24) }, false},
		{"stalled-48", "48 clients that read one batch of 65,536 rows and stop", (*run).stalled48, false},
		{"stalled-windows", "clients that stop, and let the server send 64 MiB first", (*run).stalledWindows, false},
		{"stalled-64", "64 that stop, on a small budget", (*run).stalled64, false},
		{"ratio", "the speed of a stream beside 64 that stop", (*run).ratio, true},
		{"fifo", "a staging file that never opens", (*run).fifo, false},
		{"metadata", "metadata.json of 20 GB", (*run).metadata, false},
		{"bomb", "small Parquet files that unpack to 1 GiB", (*run).bombs, false},
		{"catalog", "the catalog's file replaced and deleted", (*run).catalog, false},
		{"peak-active", "64 streams that read", (*run).peakActive, false},
		{"peak-stalled", "64 and many more that stop", (*run).peakStalled, false},
		{"peak-batches", "the widest and the longest batches", (*run).peakBatches, false},
		{"peak-lanes", "as many lanes as a plan may have", (*run).peakLanes, false},
		{"peak-spill", "8 joins at once that do not fit", (*run).peakSpill, false},
		{"churn", "streams opened, cut, resumed, failing and stalled for long", (*run).churned, false},
		{"kills", "the server killed at random, its clients resume", (*run).kills, false},
		{"tickets", "tickets with a flipped bit", (*run).tickets, false},
		{"damage", "damaged data files", (*run).damage, false},
		{"intrude-headers", "calls with a header of 3.9 KB named 4,000 times", (*run).intrudeHeaders, false},
		{"intrude-half", "requests whose last byte never comes", (*run).intrudeHalf, false},
		{"intrude-open", "100,000 calls without requests", (*run).intrudeOpen, false},
		{"intrude-slow", "requests that come byte by byte", (*run).intrudeSlow, false},
		{"intrude-resets", "calls that are reset at once", (*run).intrudeResets, false},
		{"intrude-idle", "connections that say nothing", (*run).intrudeIdle, false},
		{"intrude-tickets", "answers of GetFlightInfo that are not read", (*run).intrudeTickets, false},
		{"intrude-renew", "answers of RenewFlightEndpoint that are not read", (*run).intrudeRenew, false},
		{"intrude-errors", "failures that are not read", (*run).intrudeErrors, false},
		{"intrude-plans", "200 plans at once", (*run).intrudePlans, false},
		{"intrude-tokens", "calls with tokens that are guessed", (*run).intrudeTokens, false},
		{"intrude-handshakes", "handshakes that stop, end at once, or lead to nothing", (*run).intrudeHandshakes, false},
		{"mutate-put", "rows in messages that are damaged on purpose", (*run).mutatePut, false},
		{"mapped", "clients of the local socket that keep all, read nothing or send nonsense", (*run).mapped, false},
	}
}

// run is one run of attacks.
type run struct {
	*report
	sizes
	quick    bool
	untimed  bool // no speeds are compared
	program  string
	home     string // of the tables
	scratch  string // removed at the end, unless something failed
	ceiling  int64  // bytes that no server may hold, whatever its budget
	patience time.Duration
	servers  int // started so far
	known    map[string]*digest
	name     string // of the attack that runs
}

func attackAll(ctx context.Context, arguments []string) (err error) {
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	program := flags.String("program", "bin/penstock", "the server to attack")
	folder := flags.String("tables", ".bench/attack", "where the tables are, or are made")
	quick := flags.Bool("quick", false, "small tables and crowds, one budget: less than three minutes")
	only := flags.String("only", "", "the attacks to run, by name, with commas; a name may be the beginning of several")
	untimed := flags.Bool("untimed", false, "without what compares speeds: for machines that others use too")
	out := flags.String("json", "", "also write the results to this file")
	list := flags.Bool("list", false, "list the attacks and end")
	patience := flags.Duration("patience", 0, "how long a stream may take to its end (default 5m, and 1m with -quick)")
	mutations := flags.Int("mutations", 0, "the damaged messages of mutate-put (default 1,000,000, and 5,000 with -quick)")
	ceiling := flags.Int64("ceiling", 10<<10, "kill a server that holds this many MiB, whatever its budget")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	chosen, err := choose(*only, *untimed)
	if err != nil {
		return err
	}
	if *list {
		for _, a := range chosen {
			fmt.Printf("%-16s %s\n", a.name, a.about)
		}
		return nil
	}
	r := &run{report: &report{out: os.Stdout}, sizes: fullSizes(), quick: *quick, untimed: *untimed, ceiling: *ceiling * mebi, patience: 5 * time.Minute, known: map[string]*digest{}}
	form := "full"
	if *quick {
		r.sizes, r.patience, form = quickSizes(), time.Minute, "quick"
	}
	r.mutations = cmp.Or(*mutations, r.mutations)
	if *patience > 0 {
		r.patience = *patience
	}
	if r.program, err = filepath.Abs(*program); err != nil {
		return err
	}
	if r.home, err = filepath.Abs(filepath.Join(*folder, form)); err != nil {
		return err
	}
	if err := ensure(ctx, r.home, r.sizes); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	if r.scratch, err = os.MkdirTemp(filepath.Dir(r.home), "run-"); err != nil {
		return err
	}
	r.head()
	for _, a := range chosen {
		r.name = a.name
		if err := a.do(r, ctx); err != nil {
			r.add(line{Attack: a.name, Check: "it could be tried", Figure: err.Error()})
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	if *out != "" {
		if err := r.write(*out); err != nil {
			return err
		}
	}
	if n := r.failed(); n > 0 {
		return fmt.Errorf("%d of %d checks failed; the servers' logs are in %s", n, len(r.lines), r.scratch)
	}
	return os.RemoveAll(r.scratch)
}

// choose returns the attacks whose names begin with one of the prefixes. If untimed is set, attacks
// that compare speeds are left out.
func choose(only string, untimed bool) ([]attack, error) {
	all := slices.DeleteFunc(attacks(), func(a attack) bool { return a.timed && untimed })
	if only == "" {
		return all, nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.ContainsFunc(all, func(a attack) bool { return strings.HasPrefix(a.name, name) }) {
			return nil, fmt.Errorf("no attack is called %q; -list shows all", name)
		}
	}
	return slices.DeleteFunc(all, func(a attack) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(a.name, name) })
	}), nil
}
