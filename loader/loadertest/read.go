package loadertest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner/spill"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// OneShard returns a query of one shard.
func OneShard(lanes, rows int) dataset.Query {
	return dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: lanes}, Reading: dataset.Reading{BatchRows: rows, Shard: dataset.Shard{Index: 0, Of: 1}}}
}

// Open plans a query and opens its stream, which the caller releases.
func Open(t *testing.T, l *loader.Loader, q dataset.Query) loader.Stream {
	t.Helper()
	p, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	s, err := l.Open(context.Background(), p, loader.StreamOptions{})
	require.NoError(t, err)
	return s
}

// ReadAll reads every shard of a query and returns the rows in the order of shards, or
// the error.
func ReadAll(t *testing.T, c *scenario.Made, q dataset.Query) ([][]any, error) {
	t.Helper()
	q.Dataset = "d"
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	var rows [][]any
	for _, s := range shards {
		rows = append(rows, s.Rows()...)
	}
	return rows, err
}

// LaneRows reads each lane separately to its end and returns its rows as text.
func LaneRows(t *testing.T, m *scenario.Made, q dataset.Query) [][]string {
	t.Helper()
	q.Shard, q.BatchRows, q.Tail, q.Count = dataset.Shard{Index: dataset.AllShards, Of: q.Lanes}, 5, dataset.TailKeep, dataset.CountEstimate
	shards, err := scenario.Read(context.Background(), m.Loader(), q)
	require.NoError(t, err)
	rows := make([][]string, len(shards))
	for i, s := range shards {
		rows[i] = scenario.Texts(s.Rows())
	}
	return rows
}

// GlobalSteps returns the sorted rows of each step over all shards.
func GlobalSteps(shards []scenario.Shard) [][]string {
	var steps [][]string
	for _, s := range shards {
		for i, b := range s.Batches {
			if i == len(steps) {
				steps = append(steps, nil)
			}
			steps[i] = append(steps[i], scenario.Texts(b)...)
		}
	}
	for _, s := range steps {
		slices.Sort(s)
	}
	return steps
}

// Sorted returns rows of unspecified order in a fixed order.
func Sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }

// Disk opens a spool for the test.
func Disk(t *testing.T, limit int64) (*spool.Spool, func(what string) (spill.Store, error)) {
	t.Helper()
	s, err := spool.Open(spool.Options{Folder: t.TempDir(), Limit: limit})
	require.NoError(t, err)
	t.Cleanup(func() { require.Zero(t, s.Stats().Files, "spool files that are still open") })
	return s, func(what string) (spill.Store, error) {
		f, err := s.Create(what)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}
