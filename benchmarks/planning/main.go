// Command planning measures the cost of planning many files, including the catalog: five tables of
// 4,096 data files each, and one table of 50,000 data files with 10,000 delete files. The files only
// exist in their manifests, with the bounds of all 21 columns, as writers record them.
//
//	go run ./benchmarks/planning [-tables .bench/planning] [-rounds 7]
//
// Nothing is cached between plans. The memory of a plan is the maximum size of the heap during
// planning minus its size before, including garbage not collected yet. The command creates the tables
// if they do not exist, and exits with 1 if a plan takes more than a second, or one of the first kind
// more than 100 MB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// The limits of a plan.
const (
	maxTime = time.Second
	maxHeap = 100_000_000 // bytes
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "planning:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("planning", flag.ContinueOnError)
	folder := flags.String("tables", ".bench/planning", "where the tables are, or are made")
	rounds := flags.Int("rounds", 7, "how often each is measured, after one warm-up")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	home, err := filepath.Abs(*folder)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(home, finished)); errors.Is(err, fs.ErrNotExist) {
		if err := write(ctx, home); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	fmt.Printf("%-26s %8s %8s %8s %14s\n", "plan", "splits", "ms", "MB", "MB allocated")
	var failed error
	for _, t := range allPlanned() {
		failed = errors.Join(failed, measure(ctx, home, t, *rounds))
	}
	return failed
}

// measure plans without caches, and prints medians.
func measure(ctx context.Context, home string, t planned, rounds int) error {
	tables, err := icebergcat.Open(ctx, icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///" + filepath.Join(home, database), BaseDir: home, Store: store.Local{},
	})
	if err != nil {
		return err
	}
	planner := loader.New(loader.Options{Catalog: tables})
	query, err := decode.Query([]byte(t.question))
	if err != nil {
		return err
	}
	var took, held, allocated []int64
	for round := range rounds + 1 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		heap := watch()
		begun := time.Now()
		p, err := planner.Plan(ctx, query)
		wall := time.Since(begun)
		peak := heap.stop()
		runtime.ReadMemStats(&after)
		if err != nil {
			return err
		}
		if splits := len(p.Splits); splits != t.splits {
			return fmt.Errorf("%s: %d splits instead of %d", t.name, splits, t.splits)
		}
		if n := p.DeleteFiles(); n != t.deletes {
			return fmt.Errorf("%s: %d delete files instead of %d", t.name, n, t.deletes)
		}
		if round > 0 {
			took, held = append(took, int64(wall)), append(held, int64(peak))
			allocated = append(allocated, int64(after.TotalAlloc-before.TotalAlloc))
		}
	}
	const mega = 1e6
	wall, bytes := time.Duration(median(took)), median(held)
	fmt.Printf("%-26s %8d %8d %8.1f %14.1f\n", t.name, t.splits, wall.Milliseconds(), float64(bytes)/mega, float64(median(allocated))/mega)
	if wall > maxTime || t.deletes == 0 && bytes > maxHeap {
		return fmt.Errorf("%s: a plan took %s and %d bytes; it may take %s and %d", t.name, wall, bytes, maxTime, maxHeap)
	}
	return nil
}

// heap samples the size of the heap's objects until it is stopped.
type heap struct {
	end  chan struct{}
	peak chan uint64
}

func watch() heap {
	h := heap{end: make(chan struct{}), peak: make(chan uint64)}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	go func() {
		often := time.NewTicker(time.Millisecond)
		defer often.Stop()
		peak := before
		for {
			peak = max(peak, read())
			select {
			case <-often.C:
			case <-h.end:
				h.peak <- max(peak, read()) - before
				return
			}
		}
	}()
	return h
}

// stop returns the maximum size of the heap above its initial size.
func (h heap) stop() uint64 {
	close(h.end)
	return <-h.peak
}

func median(values []int64) int64 {
	slices.Sort(values)
	return values[len(values)/2]
}
