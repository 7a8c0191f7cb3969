// Command requests measures how much it saves to send the columns of a request once: T's training
// rows with 2 KB of columns that are constant within a request (benchmarks/README.md), ten rows per
// request and fifty, as plain and as indexed batches over Flight on the loopback interface. They take
// turns, each with its own server.
//
//	go run ./benchmarks/requests [-program bin/penstock] [-tables .bench/requests] [-rounds 5]
//
// A turn reads the table twice, and the second pass is timed. The command prints medians,
// and exits with 1 if indexed batches of fifty rows per request take more than a tenth of the plain
// ones' bytes, or if with ten rows per request they reach less than three times the plain rows per
// second.
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

// The targets for indexed batches.
const (
	minSpeed = 3.0 // times the plain rows/s, at ten rows a request
	maxBytes = 0.1 // of the plain bytes, at fifty
)

// variant is one table in one form; each plain one comes before its indexed one.
type variant struct{ dataset, wire string }

func variants() []variant {
	return []variant{{"t10", "plain"}, {"t10", "indexed"}, {"t50", "plain"}, {"t50", "indexed"}}
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "requests:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("requests", flag.ContinueOnError)
	folder := flags.String("tables", ".bench/requests", "the folder of the tables from requests_tables.py")
	var turns passes.Turns
	turns.Flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var queries []string
	for _, v := range variants() {
		queries = append(queries, fmt.Sprintf(`{"dataset": %q, "wire": %q}`, v.dataset, v.wire))
	}
	medians, err := turns.Medians(ctx, filepath.Join(*folder, "penstock.yaml"), queries)
	if err != nil {
		return err
	}
	return report(medians)
}

// report prints medians, and returns an error for each target that is missed.
func report(medians []passes.Pass) error {
	var short error
	fmt.Println("| table | wire | rows | seconds | server's CPU s | Mrows/s | bytes a row | rows/s of plain's | bytes of plain's |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---:|---:|")
	for i, v := range variants() {
		p, plain := medians[i], medians[i/2*2]
		speed, size := plain.Took.Seconds()/p.Took.Seconds(), float64(p.Bytes)/float64(plain.Bytes)
		fmt.Printf("| %s | %s | %d | %.2f | %.2f | %.2f | %d | %.2f | %.3f |\n", v.dataset, v.wire, p.Rows, p.Took.Seconds(), p.CPU,
			float64(p.Rows)/p.Took.Seconds()/1e6, p.Bytes/p.Rows, speed, size)
		if v == (variant{"t10", "indexed"}) && speed < minSpeed {
			short = errors.Join(short, fmt.Errorf("ten rows a request: %.2f times the plain rows/s", speed))
		}
		if v == (variant{"t50", "indexed"}) && size > maxBytes {
			short = errors.Join(short, fmt.Errorf("fifty rows a request: %.3f of the plain bytes", size))
		}
	}
	return short
}
