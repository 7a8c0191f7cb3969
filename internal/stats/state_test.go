package stats_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
)

// restored returns the part of a file at a higher level, from the state and the sample of the part at a lower level.
func restored(t *testing.T, d table, p *stats.Part, level int) *stats.Part {
	t.Helper()
	fields := d.schema.Fields()
	arrays, err := p.Arrays(fields)
	require.NoError(t, err)
	out, err := stats.ReadPart(fields, arrays[0])
	require.NoError(t, err)
	require.Equal(t, p.Sampled, out.Sampled)
	require.True(t, out.Resample(level))
	for i, a := range arrays {
		require.True(t, arrow.TypeEqual(stats.PartType(fields), a.DataType()))
		if i == 0 {
			a.Release()
			continue
		}
		b, numbers, err := stats.SampleRows(fields, a)
		require.NoError(t, err)
		_, err = out.Select(b, numbers)
		require.NoError(t, err)
		require.NoError(t, out.AddSample(b, memory.DefaultAllocator))
		b.Release()
		a.Release()
	}
	return out
}

// A part that is read from its state and its sample equals the part that was serialized, and merges like it. At a higher level,
// it equals the part of the same rows at that level.
//
// spec: stats-11
func TestStatesAreThoseOfTheirParts(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		level := rng.IntN(3)
		higher := level + rng.IntN(3)
		whole, again := stats.NewPart(schema.Fields(), stats.Sampling{Level: higher}), stats.NewPart(schema.Fields(), stats.Sampling{Level: higher})
		d := table{schema: schema}
		for range 1 + rng.IntN(3) {
			d = random(rng, rng.IntN(900))
			sampling := stats.Sampling{Seed: rng.Uint64(), Level: level}
			batches := d.batches(t, rng)
			low := describe(t, d, sampling, batches)
			read := restored(t, d, low, higher)
			require.False(t, read.Resample(higher-1))
			sampling.Level = higher
			high := describe(t, d, sampling, batches)
			require.Equal(t, high.State(), read.State())
			require.Equal(t, summaries(t, d, high), summaries(t, d, read))
			whole.Merge(high)
			again.Merge(read)
			low.Release()
		}
		require.Equal(t, summaries(t, d, whole), summaries(t, d, again))
		require.Equal(t, whole.State(), again.State())
		whole.Release()
		again.Release()
	}
}

// state returns a state with rows of all kinds.
func state(t testing.TB) []byte {
	t.Helper()
	d := random(rand.New(rand.NewPCG(1, 5)), 300)
	p := stats.NewPart(schema.Fields(), stats.Sampling{Seed: 7, Level: 1})
	for _, b := range d.batches(t, rand.New(rand.NewPCG(2, 5))) {
		_, err := p.Select(b, make([]int64, b.NumRows()))
		require.NoError(t, err)
		require.NoError(t, p.Add(b, memory.DefaultAllocator))
	}
	return p.State()
}

// signed replaces the checksum of a state by the right one.
func signed(state []byte) []byte {
	end := max(0, len(state)-8)
	return binary.LittleEndian.AppendUint64(append([]byte{}, state[:end]...), xxh3.Hash(state[:end]))
}

// Damaged states are refused, and the content of a forged state never makes a part that fails.
func TestDamagedStatesAreRefused(t *testing.T) {
	good := state(t)
	fields := schema.Fields()
	for i := range good {
		for _, bad := range [][]byte{good[:i], append(append(append([]byte{}, good[:i]...), good[i]^1), good[i+1:]...)} {
			_, err := stats.ReadState(fields, bad)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
		}
	}
	_, err := stats.ReadState(fields[1:], good)
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
	rng, read := rand.New(rand.NewPCG(3, 5)), 0
	for range 2000 {
		forged := append([]byte{}, good...)
		for range 1 + rng.IntN(3) {
			forged[14+rng.IntN(len(forged)-14)] = byte(rng.Uint32() & rng.Uint32())
		}
		if use(forged) {
			read++
		}
	}
	require.Positive(t, read)
}

// use reads a state with the right checksum, and uses the part.
func use(content []byte) bool {
	p, err := stats.ReadState(schema.Fields(), signed(content))
	if err != nil {
		return false
	}
	whole := stats.NewPart(schema.Fields(), stats.Sampling{})
	whole.Merge(p)
	for i, f := range schema.Fields() {
		whole.Summarize(i, f.Name, true, nil)
	}
	return true
}

// FuzzState is TestDamagedStatesAreRefused for any content.
func FuzzState(f *testing.F) {
	f.Add(state(f))
	f.Fuzz(func(_ *testing.T, content []byte) { use(content) })
}
