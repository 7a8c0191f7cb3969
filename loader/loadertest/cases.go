package loadertest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// Cases returns the number of random cases of a test: many if PENSTOCK_LONG=1 is set, otherwise few
// divided by share, but at least 2. Callers pass a share above 1 under the race detector.
func Cases(share, few, many int) int {
	if os.Getenv("PENSTOCK_LONG") == "1" {
		return many
	}
	return max(2, few/share)
}

// Plenty is a budget that holds everything that a test reads.
const Plenty = 1 << 30

// Generated returns n random cases that cover every rule, modified by change. Each of them returns
// more than 10 rows.
func Generated(t *testing.T, n int, change func(*scenario.Case)) []*scenario.Case {
	t.Helper()
	var good []*scenario.Case
	for seed := uint64(50000); len(good) < n; seed++ {
		c := scenario.Generate(seed, 1+int(seed)%16, 1+int(seed)/16%16)
		change(c)
		w, err := c.Make()
		require.NoError(t, err)
		if want := c.Expect(w); want.Fails == "" && len(want.Rows) > 10 {
			good = append(good, c)
		}
		w.Release()
	}
	return good
}

// Whole makes a case read all of its rows, in batches of BatchRows, for tests that
// change the plan.
func Whole(c *scenario.Case) {
	q := &c.Query
	q.BatchRows, q.GlobalBatchRows, q.BatchRequests = max(q.BatchRows, q.GlobalBatchRows, q.BatchRequests), 0, 0
	q.Limit, q.Endpoints = 0, dataset.EndpointsShards
	if q.Wire.Grouped() || q.Wire.Auto() { // other batches may have other columns
		q.Wire = dataset.WireIndexed
	}
}

// KeepAllRows makes a case return each training row once, so that its plan knows the
// number of rows of a range. Such streams, when parked, resume within a joined batch.
func KeepAllRows(c *scenario.Case) {
	c.Query.Filter, c.Query.Sample = dataset.Filter{}, nil
	c.Dataset.Training.Filter, c.Dataset.Training.Distinct = dataset.Filter{}, nil
	for i := range c.Dataset.Staging {
		entry := &c.Dataset.Staging[i]
		if !entry.Join.Adds() && !entry.Join.KeepsAll() { // semi and anti
			entry.Columns = []dataset.Column{}
		}
		if !entry.Join.KeepsAll() {
			entry.Join = rule.Left
		}
		if entry.Duplicates.Multiply() {
			entry.Duplicates = rule.DuplicatesFirst
		}
	}
}

// Resize sets the batch size of a query to n rows, or to n requests if the query has
// batches of requests.
func Resize(q *dataset.Query, n int) {
	q.GlobalBatchRows = 0
	if q.BatchRequests > 0 {
		q.BatchRequests = n
	} else {
		q.BatchRows = n
	}
}

// Made creates the tables of a case.
func Made(t *testing.T, c *scenario.Case) *scenario.Made {
	t.Helper()
	w, err := c.Make()
	require.NoError(t, err)
	t.Cleanup(w.Release)
	return &scenario.Made{World: w, Case: c}
}

// Seeds returns the first n seeds for which scenario.Random makes a case of the given shape with
// more than 20 training rows.
func Seeds(t *testing.T, n int, shape scenario.Shape) []uint64 {
	t.Helper()
	var good []uint64
	for seed := uint64(1); len(good) < n; seed++ {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		if c.Training.Rows() > 20 {
			good = append(good, seed)
		}
		c.Release()
	}
	return good
}

// Orders returns one query for each kind of order.
func Orders() []dataset.Query {
	return []dataset.Query{
		{Rows: dataset.Rows{Order: dataset.Stored}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits}},
		{Rows: dataset.Rows{Order: dataset.Shuffled}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, ShuffleWindow: 5}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: 7}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows}},
	}
}

// Stepped returns cases of every rule with eight lanes, by seed.
func Stepped(t *testing.T, n int) []*scenario.Case {
	t.Helper()
	return Generated(t, n, func(c *scenario.Case) {
		Whole(c)
		if c.Query.Wire.Auto() { // the columns of streams may be in different orders
			c.Query.Wire = dataset.WireIndexed
		}
		c.Query.Lanes, c.Query.BatchRows, c.Query.BatchRequests, c.Query.Shard.Of = 8, 0, 0, 1
	})
}
