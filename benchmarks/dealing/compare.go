package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// epochsCompared is the number of epochs of each simulation.
const epochsCompared = 6

// compare prints what each way to deal splits costs the replicas, and how well it mixes batches. folder has the tables of T, whose
// sizes per row the simulated tables have.
func compare(ctx context.Context, folder string) error {
	t, err := opened(ctx, folder, "t")
	if err != nil {
		return err
	}
	p, err := t.plan(ctx, dataset.Rows{Lanes: 1}, dealtEachEpoch)
	if err != nil {
		return err
	}
	perRow := float64(total(t.trainingBytes)) / float64(p.StoredRows)
	staging := float64(total(t.stagingBytes)) / float64(p.StoredRows)
	fmt.Printf("T: %.1f bytes of training columns and %.1f bytes of staging columns for each of %d rows\n", perRow, staging, p.StoredRows)
	balance()
	for _, of := range []layout{
		{name: "20 days", days: 20},
		{name: "20 days, uneven", days: 20, skew: 0.3},
		{name: "no days", days: 1},
		{name: "no days, uneven", days: 1, skew: 0.3},
	} {
		of.rows, of.trainingBytes, of.stagingBytes = p.StoredRows, perRow, staging
		if err := of.compare(ctx); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
	}
	return nil
}

func (of layout) compare(ctx context.Context) error {
	l, err := of.drawn()
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n| lanes | dealt | rows that keep their lane | day | bucket | pairs again: step | of a rank |\n|---:|---|---:|---:|---:|---:|---:|\n", of.name)
	for _, lanes := range []int{8, 16} {
		for _, w := range ways() {
			if w.filesCached {
				continue // its rows are those of the way before it
			}
			q, err := mixingOf(ctx, of, w, lanes)
			if err != nil {
				return err
			}
			fmt.Printf("| %d | %s | %.1f %% | %.2f | %.2f | %.2f | %.2f |\n", lanes, w.name, 100*q.kept, q.day, q.bucket, q.job, q.rank)
		}
	}
	fmt.Print("\n| replicas | lanes | dealt | staging read, 1st epoch | build sides held | storage, 1st epoch | 2nd epoch | later, each | hits, 2nd epoch | hits, small cache |\n|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{1, 2, 4, 8} {
		for _, lanes := range []int{8, 16} {
			for _, w := range ways() {
				if err := of.simulate(ctx, l, w, n, lanes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// simulate prints a line for some replicas that read several epochs of shardsOfJob streams, each with as many slots as it needs.
func (of layout) simulate(ctx context.Context, l *lake, w way, n, lanes int) error {
	ample, small := newJob(l, n, limits{1 << 50, 1 << 50}), newJob(l, n, limits{total(l.trainingBytes) * 3 / 2 / int64(n), 1 << 50})
	var epochs, scarce []counts
	for epoch := range int64(epochsCompared) {
		p, err := w.deal(ctx, l, dataset.Rows{Order: dataset.Shuffled, Seed: seed, Epoch: epoch, Lanes: lanes})
		if err != nil {
			return err
		}
		epochs, scarce = append(epochs, ample.epoch(p)), append(scarce, small.epoch(p))
	}
	var later, late counts
	for i := range epochs[2:] {
		later.add(epochs[2+i])
		late.add(scarce[2+i])
	}
	all := float64(total(l.trainingBytes) + total(l.stagingBytes))
	storage := []float64{epochs[0].bytes() / all, epochs[1].bytes() / all, later.bytes() / all / float64(epochsCompared-2)}
	if w.filesCached { // it reads each column chunk once
		storage = []float64{1, 0, 0}
	}
	fmt.Printf("| %d | %d | %s | %.2f | %.0f %% | %.2f | %.2f | %.2f | %.0f %% | %.0f %% |\n", n, lanes, w.name,
		float64(epochs[0].staging)/float64(total(l.stagingBytes)), 100*ample.held(), storage[0], storage[1], storage[2],
		100*ratio(epochs[1].hit, epochs[1].asked), 100*ratio(late.hit, late.asked))
	return nil
}

// bytes returns the stored bytes that were read.
func (c counts) bytes() float64 { return float64(c.training + c.staging) }

// job is the replicas that read the shards of a job.
type job struct {
	replicas []*replica
	home     []int // by shard
}

func newJob(l *lake, n int, within limits) *job {
	j := &job{home: placed(l.name, shardsOfJob, n, (shardsOfJob+n-1)/n)}
	for range n {
		j.replicas = append(j.replicas, newReplica(l, within))
	}
	return j
}

// held returns the share of all build sides that a replica has, on average.
func (j *job) held() float64 {
	sum := 0
	for _, r := range j.replicas {
		sum += len(r.sides.entries)
	}
	return float64(sum) / float64(len(j.replicas)) / buckets
}

// epoch reads all shards of a plan, and returns the counts of all replicas.
func (j *job) epoch(p *plan.Plan) counts {
	for shard, of := range j.home {
		j.replicas[of].stream(p, shard, len(j.home))
	}
	var all counts
	for _, r := range j.replicas {
		all.add(r.take())
	}
	return all
}

// balance prints how evenly rendezvous hashing spreads shards: the most shards of a replica over the mean, on average over many
// datasets, if replicas refuse no shard, and if each has as many slots as the mean, rounded up.
func balance() {
	fmt.Print("\n| replicas | shards | most shards over the mean | with slots |\n|---:|---:|---:|---:|\n")
	const draws = 500
	for _, n := range []int{2, 4, 8} {
		for _, shards := range []int{8, 16, 64, 512} {
			free, bounded := 0.0, 0.0
			for d := range draws {
				name := fmt.Sprint("dataset", d)
				free += unevenness(placed(name, shards, n, 0), n) / draws
				bounded += unevenness(placed(name, shards, n, (shards+n-1)/n), n) / draws
			}
			fmt.Printf("| %d | %d | %.2f | %.2f |\n", n, shards, free, bounded)
		}
	}
}

func unevenness(home []int, replicas int) float64 {
	of := make([]int, replicas)
	for _, r := range home {
		of[r]++
	}
	return float64(slices.Max(of)) * float64(replicas) / float64(len(home))
}

func total(bytes map[string]int64) (sum int64) {
	for _, n := range bytes {
		sum += n
	}
	return sum
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }
