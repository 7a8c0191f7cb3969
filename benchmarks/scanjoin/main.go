// Command scanjoin measures the cost of the join on top of the necessary reads: all rows of a
// training table and three staging tables, joined by loader.Open without the wire, against the same
// columns of the same four tables scanned once each and discarded. Both use the components and options
// of cmd/penstock. They take turns in one process.
//
//	.venv/bench/bin/python benchmarks/scanjoin_tables.py .bench/scanjoin
//	go run ./benchmarks/scanjoin [-tables .bench/scanjoin] [-rounds 7] [-profile folder]
//
// The last line is the ratio: joined rows per second over training rows per
// second of scanning. The keys of the staging tables count as scanned columns, as a join has to read
// them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

// limit is the memory budget for staging rows and read-ahead.
const limit = 4 << 30

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scanjoin:", err)
		os.Exit(1)
	}
}

// pass is a kind of complete read, with its costs.
type pass struct {
	name string
	read func(ctx context.Context) (rows int64, err error)
	took []cost
}

// cost is the cost of one read.
type cost struct {
	wall, cpu time.Duration
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("scanjoin", flag.ContinueOnError)
	folder := flags.String("tables", ".bench/scanjoin", "where scanjoin_tables.py made the tables")
	rounds := flags.Int("rounds", 7, "how often each is measured, after one warm-up")
	profile := flags.String("profile", "", "write join.prof and scan.prof into this folder")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	e, err := assemble(ctx, *folder)
	if err != nil {
		return err
	}
	defer e.Close()
	passes := []*pass{{name: "join", read: e.join}, {name: "scan", read: e.scan}}
	for round := range *rounds + 1 {
		for _, p := range passes {
			took, err := measured(ctx, p.read, e.rows)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 {
				p.took = append(p.took, took)
			}
		}
	}
	report(passes, e.rows)
	if *profile == "" {
		return nil
	}
	for _, p := range passes {
		if err := profiled(ctx, p, filepath.Join(*profile, p.name+".prof")); err != nil {
			return err
		}
	}
	return nil
}

// measured reads once. Garbage of the previous pass is not charged to this one.
func measured(ctx context.Context, read func(context.Context) (int64, error), want int64) (cost, error) {
	runtime.GC()
	begun, used := time.Now(), processorTime()
	rows, err := read(ctx)
	took := cost{wall: time.Since(begun), cpu: processorTime() - used}
	if err == nil && rows != want {
		err = fmt.Errorf("%d rows instead of %d", rows, want)
	}
	return took, err
}

// processorTime returns the user and system time of the process so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(passes []*pass, rows int64) {
	fmt.Printf("%-6s %10s %10s %12s\n", "", "seconds", "CPU s", "rows/s")
	var wall, cpu []float64
	for _, p := range passes {
		w := median(p.took, func(c cost) time.Duration { return c.wall })
		c := median(p.took, func(c cost) time.Duration { return c.cpu })
		wall, cpu = append(wall, w.Seconds()), append(cpu, c.Seconds())
		fmt.Printf("%-6s %10.3f %10.3f %12.0f\n", p.name, w.Seconds(), c.Seconds(), float64(rows)/w.Seconds())
	}
	fmt.Printf("joined rows/s are %.0f %% of scanning (CPU seconds: %.0f %%)\n", 100*wall[1]/wall[0], 100*cpu[1]/cpu[0])
}

func median(took []cost, of func(cost) time.Duration) time.Duration {
	values := make([]time.Duration, len(took))
	for i, c := range took {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// profiled reads a few times more under the CPU profiler.
func profiled(ctx context.Context, p *pass, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	for range 3 {
		if _, err := p.read(ctx); err != nil {
			return err
		}
	}
	return nil
}
