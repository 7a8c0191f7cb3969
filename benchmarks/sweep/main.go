// Command sweep measures what a server saves when the equal jobs of a sweep share batches
// (share_batches). Jobs read T (benchmarks/README.md) over Flight on the loopback interface, receive
// messages, and decode nothing. When times are taken, each is a process of its own.
//
//	go run ./benchmarks/sweep [-program bin/penstock] [-full .bench/full] [-rounds 5] [-jobs 8] [-crowd 32]
//
// For plain and for indexed batches, these take turns:
//
//   - one job of a server that shares nothing, and one of a server that shares;
//   - all jobs at once, of a server that shares;
//   - eight jobs at once that vary: in batches of 4,096 and 8,192 rows, with all columns and with half of
//     them, two of each kind;
//   - a crowd of more jobs at once, each of which stops after its first batch;
//   - as many clients of the server of benchmarks/floors, which sends ready batches of T's shape: the
//     echo. Its CPU time is that of one client.
//
// Before that, one untimed pass checks that jobs which share get, byte for byte, the batches, cursors
// and counts of a job that shares nothing, and prints how many bytes of files they read together. Of the
// jobs, one starts when the first one has received a quarter, one receives at half of its speed, and one
// ends after a third and resumes from its cursor. The jobs that vary get what they get alone.
//
// The command prints medians. It exits with 1 if a check fails, if the jobs cost the server more than
// 1.3 times one job without its echo, and the echo once per job, or the late, slow and resumed jobs more beyond that than
// the batches that they read alone, or those that vary more than 1.8 times and
// the same, or if in 99 of 100 cases the first
// batch of a job of the crowd takes longer than half a second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/penstock/penstock/benchmarks/passes"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

// sweep has the settings of a run.
type sweep struct {
	turns  passes.Turns
	config string
	window string // share_batches
	jobs   int
	crowd  int
	echo   *echo
}

func run(ctx context.Context, arguments []string) (err error) {
	var s sweep
	flags := flag.NewFlagSet("sweep", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "the folder of T: benchmarks/tables.py writes it")
	flags.StringVar(&s.window, "share-batches", "1GiB", "the setting of servers that share")
	flags.IntVar(&s.jobs, "jobs", 8, "jobs at once")
	flags.IntVar(&s.crowd, "crowd", 32, "jobs at once, for the time to the first batch")
	s.turns.Flags(flags)
	role := flags.String("role", "", "of a child process: job")
	address, asked := flags.String("address", "", "of a child process"), flags.String("query", "", "of a child process")
	first := flags.Bool("first", false, "of a child process")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *role == "job" {
		return one(ctx, *address, *asked, *first)
	}
	s.config = filepath.Join(*full, "penstock.yaml")
	if s.jobs < minJobs {
		return fmt.Errorf("-jobs must be at least %d", minJobs)
	}
	if s.echo, err = startEcho(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.echo.Close()) }()
	var missed error
	for i, form := range []string{"plain", "indexed"} {
		apart, err := s.check(ctx, form)
		if err != nil {
			return fmt.Errorf("%s: %w", form, err)
		}
		if err := s.checkVaried(ctx, form); err != nil {
			return fmt.Errorf("%s: %w", form, err)
		}
		found, err := s.measure(ctx, form)
		if err != nil {
			return fmt.Errorf("%s: %w", form, err)
		}
		missed = errors.Join(missed, s.report(form, i == 0, found), s.reportUneven(form, found, apart))
	}
	return missed
}

// query returns the query of a job.
func query(form string, more string) string {
	return fmt.Sprintf(`{"dataset": "t", "wire": %q, "batch_rows": 8192%s}`, form, more)
}
