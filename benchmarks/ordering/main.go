// Command ordering measures the cost of row order: T (benchmarks/README.md) with its splits
// permuted, with the requests of each window permuted, and with the rows of each window permuted,
// on the plain wire. They take turns, each with its own server.
//
//	go run ./benchmarks/ordering [-program bin/penstock] [-full .bench/full] [-rounds 5]
//
// A turn reads the table twice, and the second pass is timed. The command prints medians,
// and exits with 1 if requests take more than 15 % longer than splits, or rows more than
// 30 %.
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

// variant is a way to shuffle, with its maximum time relative to splits.
type variant struct {
	shuffle  string
	maxRatio float64
}

func variants() []variant { return []variant{{"splits", 1}, {"requests", 1.15}, {"rows", 1.3}} }

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ordering:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("ordering", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "where T is: make costs makes it")
	var turns passes.Turns
	turns.Flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var queries []string
	for _, v := range variants() {
		queries = append(queries, fmt.Sprintf(`{"dataset": "t", "order": "shuffled", "shuffle": %q}`, v.shuffle))
	}
	medians, err := turns.Medians(ctx, filepath.Join(*full, "penstock.yaml"), queries)
	if err != nil {
		return err
	}
	return report(medians)
}

// report prints medians, and returns an error for each variant that takes too long.
func report(medians []passes.Pass) error {
	var slow error
	fmt.Println("| shuffle | rows | seconds | server's CPU s | peak MiB | time of splits' | at most |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	for i, v := range variants() {
		p := medians[i]
		ratio := p.Took.Seconds() / medians[0].Took.Seconds()
		fmt.Printf("| %s | %d | %.2f | %.2f | %d | %.2f | %.2f |\n", v.shuffle, p.Rows, p.Took.Seconds(), p.CPU, p.Peak>>20, ratio, v.maxRatio)
		if ratio > v.maxRatio {
			slow = errors.Join(slow, fmt.Errorf("%s: %.2f of the time of splits", v.shuffle, ratio))
		}
	}
	return slow
}
