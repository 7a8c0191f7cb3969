// Command dealing simulates servers that share the shards of a dataset, and compares ways to deal splits to lanes.
//
//	go run ./benchmarks/dealing [-tables .bench/full] compare
//	go run ./benchmarks/dealing [-tables .bench/dealing] [-program bin/penstock] check
//	go run ./benchmarks/dealing links
//	go run ./benchmarks/dealing lose
//
// Splits, lanes, runs and windows are made by the server's planner. What replicas keep and read is simulated: a stream reads each
// column chunk once, unless the replica's cache has it, and a replica builds each build side once, unless it has kept it.
//
// compare prints, for each way to deal, what replicas read and hold over epochs, and how well batches are mixed. Its tables exist only
// in memory, with the sizes of the rows of T (benchmarks/tables.py). check starts servers on this machine, reads tables of
// benchmarks/dealing_tables.py from them, and fails if they read over a tenth more or less than simulated, or keep other numbers of
// build sides. links compares rates, CPU and storage of replicas behind slow links with measured ones (benchmarks/replicas.py) and with
// the formulas of docs/scale.md, and lose has 10,000 streams of which a tenth lose their replicas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

// seed is the seed of all orders.
const seed = 7

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dealing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("dealing", flag.ContinueOnError)
	folder := flags.String("tables", ".bench/full", "the folder of the tables")
	program := flags.String("program", "bin/penstock", "the server to check")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "compare":
		return compare(ctx, *folder)
	case "check":
		return check(ctx, *program, *folder)
	case "links":
		return compareLinks(ctx)
	case "lose":
		return lose(ctx)
	}
	return errors.New("name a command: compare, check, links or lose")
}
