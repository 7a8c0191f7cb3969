package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/scale"
)

// machine is what a replica has and does: its link, its processor and its storage.
type machine struct {
	link    float64       // bytes/s
	row     float64       // bytes of a row on the wire
	cpu     float64       // CPU seconds for a row
	cores   int64         // 0: as many as are needed
	start   time.Duration // CPU time of a first plan, first connections and build sides
	storage float64       // bytes/s of each replica; 0: there is no limit
	delay   time.Duration // until a request to storage is answered
}

// rate returns the rows/s of a replica, whose streams share its link and its processor.
func (m machine) rate() float64 { return scale.Rate(1, m.row, m.link, m.cpu, m.cores) }

// T behind links of 100 Mbit/s, as benchmarks/replicas.py has it: bytes of a row as the servers sent them, and the CPU time of one
// replica, without its start.
func slowLinks() machine {
	return machine{link: 100e6 / 8, row: 550, cpu: 1.235e-6, start: 80 * time.Millisecond}
}

// T's stored bytes per training row, and the rows of the benchmark.
const (
	trainingStored = 79.46
	stagingStored  = 25.77
	rowsBehind     = 1_600_000
	epochsBehind   = 2
)

// behind is what the streams of a job cost that reads some epochs from replicas behind links.
type behind struct {
	seconds, cpuRow, bytes float64
	facts                  scale.Facts // of the first epoch
}

// run reads epochs. Replicas keep build sides, and no columns: those are kept when they are read for the second time.
func (m machine) run(ctx context.Context, of layout, replicas, algorithm, epochs int) (out behind, err error) {
	l, err := of.drawn()
	if err != nil {
		return out, err
	}
	j := newJob(l, replicas, limits{columns: 0, sides: 1 << 50})
	rows := make([]int64, replicas)
	for epoch := range epochs {
		asked := dataset.Rows{Order: dataset.Shuffled, Seed: seed, Epoch: int64(epoch), Lanes: shardsOfJob}
		p, err := l.plan(ctx, asked, algorithm)
		if err != nil {
			return out, err
		}
		if epoch == 0 {
			if out.facts, err = l.facts(p, shardsOfJob); err != nil {
				return out, err
			}
		}
		for shard, at := range j.home {
			rows[at] += p.Lanes[shard].Rows
		}
		read := j.epoch(p)
		out.bytes += read.bytes()
	}
	all := int64(0)
	for _, n := range rows {
		out.seconds = max(out.seconds, m.start.Seconds()+float64(n)/m.rate())
		all += n
	}
	out.cpuRow = m.cpu + float64(replicas)*m.start.Seconds()/float64(all)
	return out, nil
}

// facts returns the facts by which the formulas compute what streams of a plan need.
func (l *lake) facts(p *plan.Plan, streams int) (scale.Facts, error) {
	q := dataset.Query{Rows: p.Rows, Reading: dataset.Reading{Shard: dataset.Shard{Index: dataset.AllShards, Of: streams}, Wire: dataset.WirePlain}}
	return scale.Of(p, q, 0, &plan.ColumnSizes{Training: l.trainingBytes, Staging: []map[string]int64{l.stagingBytes}})
}

// measured are the figures of benchmarks/results/2026-11-30-replicas-links.md, by the number of replicas: rows/s, CPU seconds of
// servers for a row, and stored bytes of two epochs.
func measured() map[int][3]float64 {
	return map[int][3]float64{
		1: {21_757, 1.26e-6, 410e6}, 2: {43_380, 1.22e-6, 422e6}, 4: {85_853, 1.29e-6, 425e6}, 8: {166_793, 1.36e-6, 431e6},
	}
}

// closest is how far simulated figures may be from measured ones.
const closest = 0.15

// compareLinks prints rates behind links as simulated, by the formulas, and as measured. It fails if a simulated figure is farther from
// the measured one than closest.
func compareLinks(ctx context.Context) error {
	fmt.Println("| replicas | rows/s, simulated | by formula | measured | ratio | storage, simulated, MB | by formula, 1st epoch | measured | ratio | CPU µs/row, simulated | measured | ratio |")
	fmt.Println("|---:|" + "---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	m, known := slowLinks(), measured()
	var failed error
	for _, n := range []int{1, 2, 4, 8} {
		got, err := m.run(ctx, layout{name: "t", rows: rowsBehind, days: 1, trainingBytes: trainingStored, stagingBytes: stagingStored}, n, dealtOnce, epochsBehind)
		if err != nil {
			return err
		}
		rate, was := float64(epochsBehind*rowsBehind)/got.seconds, known[n]
		fmt.Printf("| %d | %.0f | %.0f | %.0f | %.3f | %.0f | %.0f | %.0f | %.3f | %.2f | %.2f | %.3f |\n", n, rate, scale.Rate(n, m.row, m.link, m.cpu, 0), was[0], rate/was[0],
			got.bytes/1e6, got.facts.Read(n)/1e6, was[2]/1e6, got.bytes/was[2], 1e6*got.cpuRow, 1e6*was[1], got.cpuRow/was[1])
		for i, ratio := range []float64{rate / was[0], got.bytes / was[2], got.cpuRow / was[1]} {
			if ratio < 1-closest || ratio > 1+closest {
				what := []string{"the rate", "storage", "CPU for a row"}[i]
				failed = errors.Join(failed, fmt.Errorf("%d replicas: %s is %.2f times the measured figure", n, what, ratio))
			}
		}
	}
	return failed
}
