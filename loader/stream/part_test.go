package stream_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// bySplits reads a query split by split and returns the rows of each split.
func bySplits(t *testing.T, l *loader.Loader, q dataset.Query) [][]string {
	t.Helper()
	q.Endpoints = dataset.EndpointsSplits
	parts, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	var rows [][]string
	for _, p := range parts {
		rows = append(rows, scenario.Texts(p.Rows()))
	}
	return rows
}

// readTexts reads a query of one shard and returns its rows.
func readTexts(t *testing.T, l *loader.Loader, q dataset.Query) []string {
	t.Helper()
	shards, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	require.Len(t, shards, 1)
	return scenario.Texts(shards[0].Rows())
}

// TestSplits reads the splits of worlds separately, the last one first, and checks that
// in order they are the plain stream. From each cursor, a plain query resumes to the
// plan's end, and a query of splits resumes with the rest of them.
//
// spec: endpoint-1, endpoint-3, endpoint-7, endpoint-9
func TestSplits(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 6, StagingBuckets: []int{4}, FileRows: 5}
	several, within := 0, 0
	for i, seed := range loadertest.Seeds(t, loadertest.Cases(share, 5, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: []dataset.Order{dataset.Stored, dataset.Shuffled}[i%2], Shuffle: dataset.ShuffleSplits, Seed: 5}, Reading: dataset.Reading{BatchRows: 4}}
		if i%3 == 0 {
			q.Filter = datasettest.Filter("item > 3")
		}
		want := readTexts(t, c.Loader(), q)
		p, err := c.Loader().Plan(context.Background(), q)
		require.NoError(t, err)
		q.Endpoints = dataset.EndpointsSplits
		parts := p.PartsFrom(0)
		require.Len(t, parts, max(1, len(p.Splits)))
		p.Query.Shard.Index = 0
		rows := make([][]string, len(parts))
		for k, part := range slices.Backward(parts) {
			var cursors []dataset.Cursor
			var at []int
			stream, err := c.Loader().Open(context.Background(), p, loader.StreamOptions{Part: part})
			require.NoError(t, err)
			for stream.Next() {
				rows[k] = append(rows[k], scenario.Texts(scenario.Values(stream.RecordBatch()))...)
				cursors, at = append(cursors, stream.Cursor()), append(at, len(rows[k]))
			}
			require.NoError(t, stream.Err())
			end := stream.Report().Cursor
			stream.Release()
			require.Equal(t, []dataset.Position{{Range: part.To}}, end.At, "it ends where the next begins")
			before := slices.Concat(bySplits(t, c.Loader(), q)[:k]...)
			for b, cursor := range cursors {
				given := len(before) + at[b]
				next := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 3, Cursor: dataset.Cursors{cursor}}}
				require.Equal(t, want[given:], append([]string{}, readTexts(t, c.Loader(), next)...), "split %d, batch %d", k, b)
				rest := bySplits(t, c.Loader(), next)
				require.Equal(t, want[given:], append([]string{}, slices.Concat(rest...)...), "split %d, batch %d", k, b)
				if cursor.At[0].Row > 0 {
					require.Len(t, rest, len(parts)-k)
					within++
				}
				if p.Inexact == "" {
					require.Equal(t, int64(given), cursor.Given)
				}
			}
		}
		require.Equal(t, want, append([]string{}, slices.Concat(rows...)...))
		if len(parts) > 4 {
			several++
		}
		c.Release()
	}
	require.Positive(t, several)
	require.Positive(t, within, "cursors stood within splits")
}

// TestCountsOfSplits checks that rows count from the plan's start if they are known,
// and otherwise from the endpoint's start; from then on the rows of each lane are
// unknown.
//
// spec: endpoint-8, endpoint-13
func TestCountsOfSplits(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for _, filter := range []string{"", "item >= 0"} {
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter(filter)}, Reading: dataset.Reading{BatchRows: 2, Endpoints: dataset.EndpointsSplits}}
		parts, err := scenario.Read(context.Background(), c.Loader(), q)
		require.NoError(t, err)
		require.Greater(t, len(parts), 2)
		before := int64(0)
		for k, part := range parts {
			given := int64(0)
			for b, cursor := range part.Cursors {
				given += int64(len(part.Batches[b]))
				require.Equal(t, int64(b+1), cursor.Step)
				require.Equal(t, filter != "" && k > 0, cursor.Uneven)
				if filter == "" {
					require.Equal(t, before+given, cursor.Given)
				} else {
					require.Equal(t, given, cursor.Given)
				}
			}
			before += given
		}
		next := dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{BatchRows: 2, Tail: dataset.TailDrop, Cursor: dataset.Cursors{parts[1].Cursors[0]}}}
		_, err = c.Loader().Plan(context.Background(), next)
		if filter == "" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		next.Tail = dataset.TailKeep
		rest, err := scenario.Read(context.Background(), c.Loader(), next)
		require.NoError(t, err)
		require.True(t, rest[0].Report.Cursor.Uneven, "it stays so")
	}
}

// TestRangesOfSplits reads 1,500 splits from 1,024 endpoints and checks that none is
// read twice or lost at a border, and that the borders are the same for a resumed
// query.
//
// spec: endpoint-1, endpoint-6
func TestRangesOfSplits(t *testing.T) {
	t.Parallel()
	onlyWhole(t)
	const splits = 1500
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long day:long", "day", splits, func(i int) string { return fmt.Sprint(i, i) }).In(t, w)
	d := dataset.Dataset{Name: "d", Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits}}
	p, err := l.Plan(context.Background(), q)
	require.NoError(t, err)
	parts, next := p.PartsFrom(0), 0
	require.Len(t, parts, 1024)
	for _, part := range parts {
		require.Equal(t, next, part.From)
		require.Contains(t, []int{1, 2}, part.To-part.From)
		next = part.To
	}
	require.Equal(t, splits, next)
	for _, split := range []int{1, 2, 749, 1498, 1499} {
		rest := p.PartsFrom(split)
		require.Equal(t, split, rest[0].From)
		require.Equal(t, parts[len(parts)-len(rest)+1:], rest[1:])
	}
	require.Equal(t, []plan.Part{{From: splits, To: splits}}, p.PartsFrom(splits))
	want := readTexts(t, l, q)
	require.Len(t, want, splits)
	require.Equal(t, want, slices.Concat(bySplits(t, l, q)...))
}

// TestImpossiblePartsAreInternalErrors checks that parts that no ticket can name are
// Internal errors.
func TestImpossiblePartsAreInternalErrors(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	for name, bad := range map[string]struct {
		lanes int
		part  plan.Part
	}{
		"several lanes":   {2, plan.Part{To: 1}},
		"beyond the end":  {1, plan.Part{From: 1, To: 1000}},
		"before":          {1, plan.Part{From: -1, To: 1}},
		"the wrong order": {1, plan.Part{From: 2, To: 1}},
	} {
		q := loadertest.OneShard(bad.lanes, 4)
		p, err := c.Loader().Plan(context.Background(), q)
		require.NoError(t, err)
		_, err = c.Loader().Open(context.Background(), p, loader.StreamOptions{Part: bad.part})
		require.Equal(t, fault.Internal, fault.KindOf(err), name)
	}
	q := loadertest.OneShard(1, 2)
	p, err := c.Loader().Plan(context.Background(), q)
	require.NoError(t, err)
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	last := len(p.Splits)
	p.Query.Cursor = dataset.Cursors{shards[0].Cursors[0]}
	_, err = c.Loader().Open(context.Background(), p, loader.StreamOptions{Part: plan.Part{From: last - 1, To: last}})
	require.Equal(t, fault.Internal, fault.KindOf(err))
	require.ErrorContains(t, err, fmt.Sprintf("outside of splits %d to %d", last-1, last))
}
