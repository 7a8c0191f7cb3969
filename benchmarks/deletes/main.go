// Command deletes measures the cost of deletes: the tables of T (benchmarks/README.md), with one
// training row in ten deleted by vectors, by position deletes or by equality deletes, compared
// with T without deletes. The four take turns.
//
//	go run ./benchmarks/deletes [-program bin/penstock] [-full .bench/full] [-tables .bench/deletes] [-rounds 5]
//
// Each turn starts one server, which reads the table twice; the second pass is timed. The command
// prints two ratios to T without deletes: the speed in stored rows, and the speed in returned
// rows, which are fewer. It creates the tables if they do not exist, and exits with 1 if vectors
// reach less than 0.9 of the speed or position deletes less than 0.8.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/benchmarks/passes"
)

// The minimum speed of a variant, relative to T without deletes.
func (v variant) minSpeed() float64 {
	switch v {
	case vectors:
		return 0.9
	case positions:
		return 0.8
	case none, equality:
	}
	return 0
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "deletes:", err)
		os.Exit(1)
	}
}

const finished = "finished"

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("deletes", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "where T is: make costs makes it")
	folder := flags.String("tables", ".bench/deletes", "the folder of the tables; created if missing")
	var turns passes.Turns
	turns.Flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	home, err := filepath.Abs(*folder)
	if err != nil {
		return err
	}
	from, err := filepath.Abs(*full)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(home, finished)); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.RemoveAll(home), write(ctx, home, from), config(home, from)); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
		if err := os.WriteFile(filepath.Join(home, finished), nil, 0o600); err != nil {
			return err
		}
	}
	var queries []string
	for _, v := range variants() {
		queries = append(queries, fmt.Sprintf(`{"dataset": %q}`, v))
	}
	medians, err := turns.Medians(ctx, filepath.Join(home, "penstock.yaml"), queries)
	if err != nil {
		return err
	}
	return report(medians)
}

// config writes the server's config file.
func config(home, full string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "catalogs:\n  default: {type: sql, uri: \"sqlite:///%s/catalog.db\"}\n  full: {type: sql, name: default, uri: \"sqlite:///%s/catalog.db\"}\ndatasets:\n", home, full)
	for _, v := range variants() {
		fmt.Fprintf(&text, "  %s: {training: {table: bench.%s}, key: [request_id], staging: [{table: full.bench.staging}]}\n", v, v)
	}
	return os.WriteFile(filepath.Join(home, "penstock.yaml"), []byte(text.String()), 0o600)
}

// given returns the rows received per second.
func given(p passes.Pass) float64 { return float64(p.Rows) / p.Took.Seconds() }

// report prints medians, and returns an error for each variant that is too slow.
func report(medians []passes.Pass) error {
	var slow error
	fmt.Println("| deleted by | rows | seconds | server's CPU s | speed of none's | at least | rows given/s of none's |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	first := medians[0]
	for i, v := range variants() {
		p := medians[i]
		ratio := first.Took.Seconds() / p.Took.Seconds()
		fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %.1f | %.2f |\n", v, p.Rows, p.Took.Seconds(), p.CPU, ratio, v.minSpeed(), given(p)/given(first))
		if ratio < v.minSpeed() {
			slow = errors.Join(slow, fmt.Errorf("%s: %.2f of the speed without", v, ratio))
		}
	}
	return slow
}
