package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/benchmarks/passes"
	"github.com/penstock/penstock/loader/dataset"
)

// maxDifference is how far simulated bytes may be from those of servers.
const maxDifference = 0.1

// check compares the simulation with servers, for each of the tables of dealing_tables.py.
func check(ctx context.Context, program, folder string) error {
	fmt.Println("| table | replicas | caches | epoch | read, simulated | by servers | ratio | of staging, simulated | by servers | build sides, simulated | of servers |")
	fmt.Println("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	var failed error
	for _, table := range []string{"buckets", "days"} {
		for _, replicas := range []int{1, 2, 4, 8} {
			for _, fill := range []bool{true, false} {
				c := checked{program: program, folder: folder, table: table, fill: fill}
				failed = errors.Join(failed, c.run(ctx, replicas))
			}
		}
	}
	return failed
}

// checked compares servers of a table with simulated replicas.
type checked struct {
	program, folder, table string
	fill                   bool // the servers keep what they read; otherwise they keep nothing

	lake    *lake
	job     *job
	servers []*passes.Server
	metrics []string // addresses
}

// lanesChecked is the number of lanes, one for each shard.
const lanesChecked = shardsOfJob

func (c *checked) run(ctx context.Context, replicas int) (err error) {
	if c.lake, err = opened(ctx, c.folder, c.table); err != nil {
		return err
	}
	settings, within := []string{"--memory", "2GiB"}, limits{math.MaxInt64, math.MaxInt64}
	if !c.fill {
		settings, within = append(settings, "--cache-memory", "0"), limits{}
	}
	c.job = newJob(c.lake, replicas, within)
	for range replicas {
		address, err := passes.Free(ctx)
		if err != nil {
			return err
		}
		server, err := passes.Start(ctx, c.program, filepath.Join(c.folder, "penstock.yaml"), false, append(settings, "--metrics", address)...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		c.servers, c.metrics = append(c.servers, server), append(c.metrics, address)
	}
	var failed error
	for epoch := range int64(3) {
		failed = errors.Join(failed, c.epoch(ctx, epoch))
	}
	return failed
}

// epoch reads an epoch by the servers and by the simulated replicas, and prints what each read.
func (c *checked) epoch(ctx context.Context, epoch int64) error {
	p, err := c.lake.plan(ctx, dataset.Rows{Order: dataset.Shuffled, Seed: seed, Epoch: epoch, Lanes: lanesChecked}, dealtOnce)
	if err != nil {
		return err
	}
	before, err := c.bytesRead()
	if err != nil {
		return err
	}
	staging, err := c.stream(ctx, epoch)
	if err != nil {
		return err
	}
	after, err := c.bytesRead()
	if err != nil {
		return err
	}
	kept, err := c.kept(ctx)
	if err != nil {
		return err
	}
	simulated, sides, caches := c.job.epoch(p), 0, "none"
	for _, r := range c.job.replicas {
		sides += len(r.sides.entries)
	}
	if c.fill {
		caches = "fill"
	}
	read := float64(after - before)
	ratio := simulated.bytes() / read
	fmt.Printf("| %s | %d | %s | %d | %.1f | %.1f | %.3f | %.1f | %.1f | %d | %d |\n", c.table, len(c.servers), caches, epoch,
		simulated.bytes()/1e6, read/1e6, ratio, float64(simulated.staging)/1e6, float64(staging)/1e6, sides, kept)
	const small = 1e6 // metadata and what clients send
	if math.Abs(simulated.bytes()-read) > small+maxDifference*read || kept != sides {
		return fmt.Errorf("%s, %d replicas, epoch %d: %.1f MB and %d build sides simulated, %.1f MB and %d by servers",
			c.table, len(c.servers), epoch, simulated.bytes()/1e6, sides, read/1e6, kept)
	}
	return nil
}

// stream reads all shards of an epoch at the same time, and returns the bytes of staging tables in the reports.
func (c *checked) stream(ctx context.Context, epoch int64) (staging int64, err error) {
	use := "off"
	if c.fill {
		use = "fill"
	}
	read := make([]int64, len(c.job.home))
	var group errgroup.Group
	for shard, of := range c.job.home {
		query := fmt.Sprintf(`{"dataset": %q, "order": "shuffled", "seed": %d, "epoch": %d, "lanes": %d, "algorithm": %d, "shard": {"index": %d, "of": %d}, "batch_rows": 2048, "cache": %q}`,
			c.table, seed, epoch, lanesChecked, dealtOnce, shard, len(c.job.home), use)
		group.Go(func() error {
			report, err := c.servers[of].Receive(ctx, query, func(*flight.FlightData) error { return nil })
			read[shard] = report.Staging["staging"].BytesRead
			return err
		})
	}
	err = group.Wait()
	for _, n := range read {
		staging += n
	}
	return staging, err
}

// bytesRead returns the bytes that all servers have read so far.
func (c *checked) bytesRead() (all int64, err error) {
	for _, s := range c.servers {
		n, err := s.BytesRead()
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

// kept returns how many build sides the servers keep.
func (c *checked) kept(ctx context.Context) (int, error) {
	if !c.fill {
		return 0, nil // servers without a cache have no such metric
	}
	all := 0.0
	for _, address := range c.metrics {
		n, err := passes.Metric(ctx, address, "penstock_kept_build_sides")
		if err != nil {
			return 0, err
		}
		all += n
	}
	return int(all), nil
}
