package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/scale"
)

// fleet is many jobs, each of as many shards, on many replicas, of which some are lost in the middle of an epoch.
type fleet struct {
	jobs, shards   int // shards of each job
	replicas, lost int
	slots          int // of each replica, for streams (max_streams)
	of             layout
	on             machine
	noticed        time.Duration // until a stream knows that its replica is lost
	tried          time.Duration // until an address of another lost replica has failed
}

// stream is a stream of a job. Its replica is an index; -1: none had a slot.
type stream struct{ job, shard, replica int }

// outcome is what a fleet went through.
type outcome struct {
	fullest, fullestAfter float64 // the most streams of a replica over the mean of all, and of those that are left
	most                  int     // streams of a replica after the loss
	refused, homeless     int     // how often a replica had no slot, and streams without any
	moved                 int
	home                  int     // streams whose first replica is another one once clients know which are lost
	read                  counts  // for streams that moved, until they go on
	epoch                 counts  // of a whole epoch without a loss
	median, p99, last     float64 // seconds until streams that moved go on
	facts                 scale.Facts
}

// run places all streams, loses replicas, and moves their streams.
func (f fleet) run(ctx context.Context) (out outcome, err error) {
	l, err := f.of.drawn()
	if err != nil {
		return out, err
	}
	p, err := l.plan(ctx, dataset.Rows{Order: dataset.Shuffled, Seed: seed, Lanes: f.shards}, dealtOnce)
	if err != nil {
		return out, err
	}
	if out.facts, err = l.facts(p, f.shards); err != nil {
		return out, err
	}
	streams, load := f.placed(&out)
	out.fullest = float64(slices.Max(load)) * float64(f.replicas) / float64(len(streams))
	held := f.held(p, streams)
	out.epoch = f.epoch(l, p, streams)

	var waits []float64
	arrived := make([]time.Duration, f.replicas) // the work that streams that moved cause on their new replicas
	for i, s := range streams {
		if s.replica < 0 || s.replica >= f.lost { // the first ones are lost: hashes have no order
			continue
		}
		out.moved++
		at, tries := f.next(s, f.lost, load)
		out.refused += tries.full
		if at < 0 {
			out.homeless++
			continue
		}
		load[at]++
		streams[i].replica = at
		read := f.again(l, p, s, held[place{s.job, at}])
		out.read.add(read)
		arrived[at] += f.on.work(read)
		wait := f.noticed + time.Duration(tries.dead)*f.tried + arrived[at] + time.Duration(2*(read.files+read.built))*f.on.delay
		waits = append(waits, wait.Seconds())
	}
	alive := load[f.lost:]
	out.most = slices.Max(alive)
	out.fullestAfter = float64(out.most) * float64(len(alive)) / float64(len(streams))
	slices.Sort(waits)
	out.median, out.p99, out.last = waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1]
	return out, nil
}

// work returns how long a replica needs for what it reads for a stream that moved: its plan, storage and decoding.
func (m machine) work(read counts) time.Duration {
	seconds := read.bytes()/m.storage + scale.CPU(plan.Decoded*read.bytes(), false)/float64(m.cores)
	return m.start + time.Duration(seconds*float64(time.Second))
}

// placed deals the shards of each job to replicas, as clients do, and returns the number of streams of each replica. A replica without
// a slot refuses a stream, which goes to the next one.
func (f fleet) placed(out *outcome) (streams []stream, load []int) {
	load = make([]int, f.replicas)
	all := make([]int, f.replicas)
	for r := range all {
		all[r] = r
	}
	for job := range f.jobs {
		before, after := dealt(f.name(job), f.shards, all), dealt(f.name(job), f.shards, all[f.lost:])
		for shard, at := range before {
			if at >= f.lost && after[shard] != at {
				out.home++
			}
			s := stream{job, shard, at}
			if load[at] >= f.slots {
				s.replica, _ = f.next(s, 0, load)
			}
			if streams = append(streams, s); s.replica >= 0 {
				load[s.replica]++
			}
		}
	}
	return streams, load
}

func (f fleet) name(job int) string { return fmt.Sprint("job", job) }

// place is the streams of a job on one replica.
type place struct{ job, replica int }

// held returns the file groups whose build sides replicas have in the middle of the epoch, by the streams that they read.
func (f fleet) held(p *plan.Plan, streams []stream) map[place]map[int]bool {
	out := map[place]map[int]bool{}
	for _, s := range streams {
		at := place{s.job, s.replica}
		if out[at] == nil {
			out[at] = map[int]bool{}
		}
		for _, r := range p.Lanes[s.shard].Ranges[:middle(p.Lanes[s.shard])+1] {
			out[at][p.Splits[r.Split].Groups[0]] = true
		}
	}
	return out
}

// middle returns the range of a lane that has its middle row.
func middle(l plan.Lane) int {
	rows := int64(0)
	for i, r := range l.Ranges {
		if rows += r.To - r.From; rows > l.Rows/2 {
			return i
		}
	}
	return len(l.Ranges) - 1
}

// tries are the replicas that a stream tried in vain.
type tries struct{ dead, full int }

// next returns the first other replica for a stream that is not one of the lost ones, and has a slot; -1 if there is none.
func (f fleet) next(s stream, lost int, load []int) (int, tries) {
	order, scores, in := make([]int, f.replicas), make([]uint64, f.replicas), tries{}
	for r := range order {
		order[r], scores[r] = r, scored(f.name(s.job), s.shard, f.shards, r)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, r := range order {
		switch {
		case r == s.replica: // which it knows
		case r < lost:
			in.dead++
		case load[r] >= f.slots:
			in.full++
		default:
			return r, in
		}
	}
	return -1, in
}

// again returns what a replica reads for a stream in the middle of its lane, if it has some build sides.
func (f fleet) again(l *lake, p *plan.Plan, s stream, held map[int]bool) counts {
	lane := p.Lanes[s.shard]
	r := lane.Ranges[middle(lane)]
	fresh := newReplica(l, limits{sides: 1 << 50})
	first := r
	first.To = r.From + 1
	for _, file := range p.Training(first).Files {
		fresh.file(file, map[string]bool{})
	}
	if group := p.Splits[r.Split].Groups[0]; !held[group] {
		fresh.side(p, group)
	}
	return fresh.take()
}

// epoch returns what all replicas read in an epoch, if they keep build sides. Jobs have tables of their own.
func (f fleet) epoch(l *lake, p *plan.Plan, streams []stream) (all counts) {
	replicas := map[place]*replica{}
	for _, s := range streams {
		at := place{s.job, s.replica}
		if replicas[at] == nil {
			replicas[at] = newReplica(l, limits{sides: 1 << 50})
		}
		replicas[at].stream(p, s.shard, f.shards)
	}
	for _, r := range replicas {
		all.add(r.take())
	}
	return all
}

// largeFleet has 10,000 streams of 50 jobs on 1,000 replicas. Each job has a table of 40,000,000 rows of T of its own.
func largeFleet() fleet {
	return fleet{
		jobs: 50, shards: 200, replicas: 1000, lost: 100,
		of:    layout{name: "large", rows: 40_000_000, days: 25, trainingBytes: trainingStored, stagingBytes: stagingStored},
		on:    machine{cores: 16, start: 80 * time.Millisecond, storage: 500e6, delay: 30 * time.Millisecond},
		tried: 100 * time.Millisecond,
	}
}

// lose prints what happens to 10,000 streams if a tenth of 1,000 replicas is lost at once: killed, silent, or with few slots.
func lose(ctx context.Context) error {
	fmt.Println("| loss | slots | most over mean, before | after | most streams of a replica | move | have another first replica | refused for slots | without a slot | read again, GB | of an epoch | by formula, GB | requests | by formula | go on after s: median | p99 | last |")
	fmt.Println("|---|" + strings.Repeat("---:|", 16))
	for _, way := range []struct {
		name    string
		noticed time.Duration
		slots   int
	}{{"killed", 0, 64}, {"silent", 12 * time.Second, 64}, {"killed", 0, 14}, {"killed", 0, 12}, {"killed", 0, 11}} {
		f := largeFleet()
		f.noticed, f.slots = way.noticed, way.slots
		got, err := f.run(ctx)
		if err != nil {
			return err
		}
		bytes, requests := f.readAgain(got.facts)
		fmt.Printf("| %s | %d | %.2f | %.2f | %d | %d | %d | %d | %d | %.1f | %.4f | %.1f | %d | %.0f | %.2f | %.2f | %.2f |\n", way.name, f.slots, got.fullest, got.fullestAfter, got.most, got.moved, got.home,
			got.refused, got.homeless, got.read.bytes()/1e9, got.read.bytes()/got.epoch.bytes(), bytes/1e9, 2*(got.read.files+got.read.built), requests, got.median, got.p99, got.last)
	}
	return nil
}

// readAgain returns what the formulas say of the streams that move, of all jobs.
func (f fleet) readAgain(facts scale.Facts) (bytes, requests float64) {
	bytes, requests = facts.ReadAgain(f.lost, f.replicas)
	return bytes * float64(f.jobs), requests * float64(f.jobs)
}
