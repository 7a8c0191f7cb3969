package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/scale"
)

// TestLinksAreCloseToMeasuredOnes: rates, storage and the CPU for a row of replicas behind links are within 15 % of those of servers.
func TestLinksAreCloseToMeasuredOnes(t *testing.T) {
	t.Parallel()
	m := slowLinks()
	for n, was := range measured() {
		got, err := m.run(t.Context(), layout{name: "t", rows: rowsBehind, days: 1, trainingBytes: trainingStored, stagingBytes: stagingStored}, n, dealtOnce, epochsBehind)
		require.NoError(t, err)
		require.InEpsilon(t, was[0], epochsBehind*rowsBehind/got.seconds, closest)
		require.InEpsilon(t, was[2], got.bytes, closest)
		require.InEpsilon(t, was[1], got.cpuRow, closest)
	}
}

// TestFormulasAgree: in small worlds, the formulas of docs/scale.md are within 15 % of what replicas of the planner's lanes read, and
// within 2 % of their rates.
func TestFormulasAgree(t *testing.T) {
	t.Parallel()
	const bound = 0.15
	for _, of := range []layout{{name: "days", days: 5}, {name: "plain", days: 1}, {name: "uneven", days: 5, skew: 0.1}} {
		of.rows, of.trainingBytes, of.stagingBytes = 400_000, trainingStored, stagingStored
		l, err := of.drawn()
		require.NoError(t, err)
		for _, algorithm := range []int{dealtEachEpoch, dealtOnce} {
			p, err := l.plan(t.Context(), dataset.Rows{Order: dataset.Shuffled, Seed: seed, Lanes: shardsOfJob}, algorithm)
			require.NoError(t, err)
			facts, err := l.facts(p, shardsOfJob)
			require.NoError(t, err)
			for _, n := range []int{1, 2, 4, 8} {
				read := newJob(l, n, limits{sides: 1 << 50}).epoch(p)
				require.InEpsilon(t, read.bytes(), facts.Read(n), bound, "%s, %d replicas, algorithm %d", of.name, n, algorithm)
				require.InEpsilon(t, float64(read.built), facts.BuildSides(n), bound, "%s, %d replicas, algorithm %d", of.name, n, algorithm)
				require.InEpsilon(t, 2*float64(read.files+read.built), facts.Requests(n), bound)
			}
		}
	}
	m := slowLinks()
	for _, n := range []int{1, 2, 4, 8} {
		got, err := m.run(t.Context(), layout{name: "t", rows: 800_000, days: 1}, n, dealtOnce, 1)
		require.NoError(t, err)
		require.InEpsilon(t, scale.Rate(n, m.row, m.link, m.cpu, 0), 800_000/got.seconds, 0.02)
	}
}

// TestStreamsFindOtherReplicas: streams of lost replicas go to others with a slot, the formulas are within 15 % of what these read for
// them, and streams without any slot are counted.
func TestStreamsFindOtherReplicas(t *testing.T) {
	t.Parallel()
	f := largeFleet()
	f.jobs, f.shards, f.replicas, f.lost, f.slots = 10, 32, 32, 4, 16
	f.of.rows, f.of.days = 1_000_000, 4
	got, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, got.moved, "each job has one stream on each replica")
	require.Zero(t, got.homeless)
	require.LessOrEqual(t, got.most, f.slots)
	bytes, requests := f.readAgain(got.facts)
	require.InEpsilon(t, got.read.bytes(), bytes, 0.15)
	require.InEpsilon(t, 2*float64(got.read.files+got.read.built), requests, 0.15)
	require.Less(t, got.last, 5.0)

	silent := f
	silent.noticed = 12 * time.Second
	later, err := silent.run(t.Context())
	require.NoError(t, err)
	require.InDelta(t, got.last+12, later.last, 1e-6)

	f.slots = 11 // 28 replicas have 308 slots for 320 streams
	got, err = f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 12, got.homeless)
	require.Equal(t, 11, got.most)
	require.Positive(t, got.refused)
}

// TestDealtAsClientsDo: each replica has at most its part, and few shards move if one replica goes.
func TestDealtAsClientsDo(t *testing.T) {
	t.Parallel()
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	before, after := dealt("d", 64, all), dealt("d", 64, all[:7])
	of, moved := map[int]int{}, 0
	for shard, r := range before {
		of[r]++
		if r != after[shard] {
			moved++
		}
	}
	for _, n := range of {
		require.Equal(t, 8, n)
	}
	require.GreaterOrEqual(t, moved, 8)
	require.Less(t, moved, 24)
}
