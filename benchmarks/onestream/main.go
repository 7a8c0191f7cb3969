// Command onestream measures how one stream uses the cores of its server: T (benchmarks/README.md)
// in batches of 8,192 rows, to a server with GOMAXPROCS of 1, 2, 4, 8 and 16.
//
//	go run ./benchmarks/onestream [-program bin/penstock] [-full .bench/full] [-rounds 5] [-cores 1,2,4,8,16]
//
// The client receives messages over TCP and does not decode them; it runs on the same machine, and
// takes cores of its own. A turn starts a server, which reads the table twice without a cache of
// decoded columns. The second pass is timed. The forms and numbers of cores take turns. The command
// prints medians: rows per second, and the ratios of speed, CPU time and peak memory to those of the
// same form on one core. A second table compares eight lanes with one lane on as many cores: the
// ratio of peak memory should be at most 1.3. The command leaves out numbers of cores that the machine does not have, and says
// so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/penstock/penstock/benchmarks/passes"
)

// form is a form of the stream. If it has several lanes, oneLane is the name of the same form with
// one lane.
type form struct{ name, fields, oneLane string }

func forms() []form {
	return []form{
		{name: "plain"},
		{name: "plain, 8 lanes", fields: `, "lanes": 8`, oneLane: "plain"},
		{name: "indexed", fields: `, "wire": "indexed"`},
		{name: "shuffled", fields: `, "order": "shuffled"`},
		{name: "shuffled, 8 lanes", fields: `, "order": "shuffled", "lanes": 8`, oneLane: "shuffled"},
	}
}

// maxLanesPeak is the limit of the peak memory of eight lanes, relative to that of one lane.
const maxLanesPeak = 1.3

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onestream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("onestream", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "where T is: make costs makes it")
	list := flags.String("cores", "1,2,4,8,16", "values of GOMAXPROCS; the first is the one to which the others are compared")
	dataset := flags.String("dataset", "t", "the dataset that is read")
	var turns passes.Turns
	turns.Flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	cores, err := coresOf(*list)
	if err != nil {
		return err
	}
	measured := map[string]map[int][]passes.Pass{}
	for range turns.Rounds() {
		for _, f := range forms() {
			for _, n := range cores {
				p, err := turn(ctx, &turns, filepath.Join(*full, "penstock.yaml"), n, fmt.Sprintf(`{"dataset": %q, "batch_rows": 8192%s}`, *dataset, f.fields))
				if err != nil {
					return fmt.Errorf("%s, %d cores: %w", f.name, n, err)
				}
				if measured[f.name] == nil {
					measured[f.name] = map[int][]passes.Pass{}
				}
				measured[f.name][n] = append(measured[f.name][n], p)
			}
		}
	}
	report(cores, measured)
	reportLanes(cores, measured)
	return nil
}

// coresOf returns the numbers of cores to measure: those of a list that the machine has.
func coresOf(list string) ([]int, error) {
	var cores []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1:
			return nil, fmt.Errorf("-cores %s: %q is not a number of cores", list, text)
		case n > runtime.NumCPU():
			fmt.Printf("%d cores are not measured: this machine has %d.\n\n", n, runtime.NumCPU())
		default:
			cores = append(cores, n)
		}
	}
	if len(cores) == 0 {
		return nil, errors.New("this machine has fewer cores than each of -cores")
	}
	return cores, nil
}

// turn reads a query twice from a new server of a number of cores, and returns the second pass.
func turn(ctx context.Context, turns *passes.Turns, config string, cores int, query string) (p passes.Pass, err error) {
	if err := os.Setenv("GOMAXPROCS", strconv.Itoa(cores)); err != nil { // the server inherits it
		return passes.Pass{}, err
	}
	server, err := turns.Start(ctx, config, "--cache-memory", "0")
	if err != nil {
		return passes.Pass{}, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if _, err := server.Read(ctx, query); err != nil {
		return passes.Pass{}, err
	}
	return server.Read(ctx, query)
}

// report prints the medians.
func report(cores []int, measured map[string]map[int][]passes.Pass) {
	fmt.Println("| form | cores | M rows/s | speed | speed a core | CPU ns a row | CPU a row | peak MiB | peak |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, f := range forms() {
		first := passes.Middle(measured[f.name][cores[0]])
		for _, n := range cores {
			p := passes.Middle(measured[f.name][n])
			speed := first.Took.Seconds() / p.Took.Seconds()
			fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %.0f | %.2f | %d | %.2f |\n", f.name, n, float64(p.Rows)/p.Took.Seconds()/1e6,
				speed, speed*float64(cores[0])/float64(n), p.CPU/float64(p.Rows)*1e9, p.CPU/first.CPU, p.Peak>>20, float64(p.Peak)/float64(first.Peak))
		}
	}
}

// reportLanes prints the medians of the forms with several lanes, relative to the same form with one
// lane.
func reportLanes(cores []int, measured map[string]map[int][]passes.Pass) {
	fmt.Println("\n| form | cores | speed, of one lane | CPU a row, of one lane | peak, of one lane | limit |")
	fmt.Println("|---|---:|---:|---:|---:|---|")
	for _, f := range forms() {
		if f.oneLane == "" {
			continue
		}
		for _, n := range cores {
			p, one := passes.Middle(measured[f.name][n]), passes.Middle(measured[f.oneLane][n])
			peak, verdict := float64(p.Peak)/float64(one.Peak), "holds"
			if peak > maxLanesPeak {
				verdict = "**missed**"
			}
			fmt.Printf("| %s | %d | %.2f | %.2f | %.2f | %.1f: %s |\n", f.name, n, one.Took.Seconds()/p.Took.Seconds(), p.CPU/one.CPU, peak, maxLanesPeak, verdict)
		}
	}
}
