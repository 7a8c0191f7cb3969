package loader_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestOracle joins random tables of every layout with every rule, all pairs of
// bucket counts up to 16 among them, and compares with nested loops. Half of
// them has so little memory that build sides go to local disk. A case
// that differs is made smaller, and printed as a scenario file.
//
// spec: resolve-1, resolve-3, resolve-4, resolve-5, resolve-6, resolve-10, order-15
// spec: filter-1, filter-2, filter-3, filter-4, filter-5, filter-6, filter-7, filter-8, filter-9
// spec: join-26, join-27, join-28, join-29, join-31, join-32, join-33, join-35, join-60
func TestOracle(t *testing.T) {
	t.Parallel()
	const lanes = 4 // cases that run concurrently
	cases := loadertest.Cases(share, 288, 10000)
	seen := make([]scenario.Coverage, lanes)
	var group errgroup.Group
	for lane := range lanes {
		seen[lane] = scenario.Coverage{}
		group.Go(func() error {
			for i := lane; i < cases; i += lanes {
				if err := try(t, scenario.Generate(uint64(i), 1+i%16, 1+i/16%16), budgets[i%len(budgets)], seen[lane]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	all := scenario.Coverage{}
	for _, s := range seen {
		all.Add(s)
	}
	require.Equal(t, cases, all["cases"])
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%6d %s", all[what], what)
	}
	for _, what := range covered {
		if share > 1 {
			break // only a few cases have few of these
		}
		require.Positive(t, all[what], "the generator made too few: %s", what)
	}
	require.Less(t, all["errors"]+all["exhausted"], cases/4, "too many cases end in an error")
}

// budgets are the budgets of the cases, in turn: plenty of memory, or too little for
// some or for most build sides.
var budgets = []int64{loadertest.Plenty, 9_000, 24_000, loadertest.Plenty, loadertest.Plenty, 12_000, loadertest.Plenty, 16_000, 20_000, loadertest.Plenty, loadertest.Plenty, 20_000}

// covered lists the features that the cases of TestOracle must cover.
var covered = []string{
	"align lag", "align latest_before", "align same", "kept apart by align", "point in time", "point in time at any time", "kept apart by time",
	"bucket of the key", "bucket of the second key", "buckets of both keys", "files of several specs", "no partition of the key",
	"key partitioned by identity", "key partitioned by truncate", "key partitioned by day", "key partitioned by hour",
	"key partitioned by month", "key partitioned by year", "partition field around the bucket", "sorted by the key",
	"dropped by the training filter", "dropped by a filter before the joins", "dropped by a staging filter", "dropped by a filter after the joins",
	"dropped by a join", "dropped by a sample", "dropped by a rate", "dropped by distinct", "multiplied",
	"filter AND", "filter OR", "filter NOT", "filter TRUTH", "filter =", "filter <>", "filter !=", "filter <", "filter <=", "filter >", "filter >=",
	"filter IN", "filter NOT IN", "filter BETWEEN", "filter NOT BETWEEN", "filter NULL", "filter NOT NULL", "filter LIKE", "filter NOT LIKE", "filter between columns",
	"filter on int32", "filter on int64", "filter on float32", "filter on float64", "filter on decimal", "filter on bool", "filter on utf8", "filter on binary",
	"filter on fixed_size_binary", "filter on date32", "filter on time64", "filter on timestamp", "filter on list", "filter on map", "filter on struct",
	"a filter on a field of a struct",
	"payload int", "payload long", "payload float", "payload double", "payload boolean", "payload string", "payload binary", "payload uuid", "payload fixed", "payload date",
	"payload time", "payload timestamp", "payload timestamptz", "payload timestamp_ns", "payload timestamptz_ns", "payload decimal", "payload list", "payload map", "payload struct",
	"key int", "key long", "key string", "key binary", "key uuid", "key fixed(3)", "key date", "key time", "key timestamp", "key timestamptz", "key timestamp_ns", "key timestamptz_ns",
	"key decimal(9,2)", "key decimal(38,10)",
	"cast of int32", "cast of float32", "cast of bool", "cast of decimal", "cast of date32", "cast of timestamp",
	"second key long", "second key string", "second key binary", "second key date",
	"duplicates all", "duplicates error", "duplicates first", "duplicates last", "null key", "overlay keeps", "overlay replaces",
	"matched left", "matched inner", "matched semi", "matched anti", "matched overlay",
	"missing null left", "missing null inner", "missing null semi", "missing null anti", "missing null overlay",
	"missing default left", "missing default overlay", "missing error left", "missing error overlay", "missing error inner",
	"strategy auto", "strategy index", "strategy merge", "strategy zip", "strategy broadcast", "ran index", "ran merge", "ran zip", "a table twice", "sent once for several rows", "several splits", "errors",
	"limited", "read by splits", "batches of requests", "grouped",
	"a key of a staging table, shown",
	"request-level columns", "requests sent once", "auto indexed", "auto plain", "dense", "dense fill", "dense null", "computed columns", "computed a sum", "computed a quotient", "computed a ratio", "computed a choice", "computed an unequal", "computed another column", "a computed value that does not exist",
	"DataLoader workers take steps in turn", "shards end at the same step",
	"spilled", "divided by bucket", "sliced", "a slice that does not fit", "a slice that does not fit, of all rows", "a slice in several portions", "ran slices on disk",
}

// try compares a case with the oracle. The error contains the smallest case that
// differs in the same way.
func try(t *testing.T, c *scenario.Case, limit int64, seen scenario.Coverage) error {
	t.Helper()
	difference, saw := differs(t, c, limit)
	seen.Add(saw)
	if difference == (scenario.Difference{}) {
		return nil
	}
	small := c.Shrink(func(d *scenario.Case) bool {
		again, _ := differs(t, d, limit)
		return again.Kind == difference.Kind
	})
	last, _ := differs(t, small, limit)
	text, err := small.Text(fmt.Sprintf("Shrunk from case %s with %d bytes: %s.", c.Name, limit, last.Kind))
	if err != nil {
		return err
	}
	path := filepath.Join(t.ArtifactDir(), c.Name+".txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s\n%s\nas a scenario file, kept as %s with -artifacts:\n\n%s", c.Name, last.Kind, last.Text, path, text)
}

// differs reads a case within a budget, compares it, and returns the difference and the
// coverage. All memory and all disk space must be released. The only error allowed is
// that of a budget that is too small even for local disk.
func differs(t *testing.T, c *scenario.Case, limit int64) (scenario.Difference, scenario.Coverage) {
	t.Helper()
	w, err := c.Make()
	if err != nil {
		return scenario.Difference{Kind: "the tables cannot be made", Text: err.Error()}, nil
	}
	defer w.Release()
	mem, b := memory.NewCheckedAllocator(batch.Default()), budget.New(limit)
	options := loader.Options{Memory: mem, Budget: b}
	spilling := &watch{seen: scenario.Coverage{}}
	files := func() int { return 0 }
	if limit < loadertest.Plenty {
		var s *spool.Spool
		s, options.Disk = loadertest.Disk(t, 0)
		options.Disk = spilling.disk(options.Disk)
		files = func() int { return s.Stats().Files }
	}
	difference, seen := c.Differs(w, options)
	seen.Add(spilling.seen)
	if limit < loadertest.Plenty && strings.HasPrefix(difference.Kind, "the read fails") && strings.Contains(difference.Kind, fault.Exhausted.String()) {
		difference = scenario.Difference{}
		seen["exhausted"]++
	}
	if difference == (scenario.Difference{}) && (mem.CurrentAlloc() != 0 || b.Used() != 0 || b.Peak() > limit || files() != 0) {
		difference = scenario.Difference{Kind: "memory leaks", Text: fmt.Sprintf("%d bytes, %d reserved, %d files, peak %d", mem.CurrentAlloc(), b.Used(), files(), b.Peak())}
	}
	return difference, seen
}

// read reads the whole case in a shape and returns its rows as text, in order.
func read(t *testing.T, seed uint64, shape scenario.Shape, q dataset.Query) []string {
	t.Helper()
	c, err := scenario.Random(seed, shape)
	require.NoError(t, err)
	defer c.Release()
	rows, err := loadertest.ReadAll(t, c, q)
	require.NoError(t, err, "seed %d, %+v", seed, shape)
	return scenario.Texts(rows)
}

// TestSameRowsSameOrder varies what must change neither rows nor their order.
//
// spec: order-14
func TestSameRowsSameOrder(t *testing.T) {
	t.Parallel()
	base := scenario.Shape{TrainingBuckets: 12, StagingBuckets: []int{8, 3}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 5, 40), base) {
		for _, query := range loadertest.Orders() {
			query.Seed, query.Epoch = 5, int64(seed)
			want := read(t, seed, base, query)
			for i := range 6 {
				shape := scenario.Shape{
					TrainingBuckets: 12, StagingBuckets: []int{1 + i*3, 16 - i*2}, BatchRows: 1 + i*4,
				}
				q := query
				q.BatchRows = 1 + i*7
				require.Equal(t, want, read(t, seed, shape, q), "seed %d, %+v", seed, shape)
			}
		}
	}
}

// TestSameRows varies what may change only the order.
//
// spec: order-18
func TestSameRows(t *testing.T) {
	t.Parallel()
	base := scenario.Shape{TrainingBuckets: 12, StagingBuckets: []int{8, 3}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 5, 40), base) {
		want := read(t, seed, base, dataset.Query{})
		for i := range 6 {
			shape := base
			shape.TrainingBuckets, shape.FileRows = 1+i*3, i
			q := loadertest.Orders()[i%len(loadertest.Orders())]
			q.Lanes, q.BatchRows, q.Seed = 1+i, 6*(1+i), int64(i)
			require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(read(t, seed, shape, q)), "seed %d, %+v", seed, shape)
		}
	}
}

// TestOrderWithoutStaging reads the training columns with and without the staging
// tables.
//
// spec: order-3
func TestOrderWithoutStaging(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 6, StagingBuckets: []int{4, 9}, FileRows: 3}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 12, 100), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		for i := range c.Dataset.Staging {
			c.Dataset.Staging[i].Join = rule.Left
		}
		columns := []dataset.Column{{Column: "item"}, {Column: "request_id"}}
		for _, q := range loadertest.Orders() {
			q.Seed, q.Lanes, q.BatchRows, q.Columns = 9, 2, 4, columns
			with, err := loadertest.ReadAll(t, c, q)
			require.NoError(t, err)
			all := c.Dataset
			c.Dataset.Staging = nil
			without, err := loadertest.ReadAll(t, c, q)
			require.NoError(t, err)
			require.Equal(t, with, without, "seed %d", seed)
			c.Dataset = all
		}
		c.Release()
	}
}

// TestShards reads the same plan with every number of shards that divides the lanes and
// checks that global step t has the same rows.
//
// spec: order-12, order-13
func TestShards(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 10, 60), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		var want [][]string
		for _, of := range []int{1, 2, 3, 6} {
			q := loadertest.Orders()[int(seed)%len(loadertest.Orders())]
			q.Dataset, q.Lanes, q.Shard, q.BatchRows = "d", 6, dataset.Shard{Index: dataset.AllShards, Of: of}, 6/of*2
			shards, err := scenario.Read(context.Background(), c.Loader(), q)
			require.NoError(t, err)
			steps := loadertest.GlobalSteps(shards)
			if of == 1 {
				want = steps
			}
			require.Equal(t, want, steps, "seed %d, %d shards", seed, of)
		}
		c.Release()
	}
}

// TestResume stops after every batch and resumes from its cursor with another batch
// size and another number of shards.
//
// spec: cursor-10, cursor-11, cursor-13, cursor-15, cursor-17
func TestResume(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6, 4}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 4, 30), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		for _, q := range loadertest.Orders() {
			q.Dataset, q.Seed, q.Lanes, q.Shard, q.BatchRows = "d", 3, 4, dataset.Shard{Index: dataset.AllShards, Of: 2}, 6
			resumeEverywhere(t, c, q)
		}
		c.Release()
	}
}

// resumeEverywhere reads a query of two shards to each of its steps and resumes there
// with four, two and one shards.
func resumeEverywhere(t *testing.T, c *scenario.Made, q dataset.Query) {
	t.Helper()
	shards, err := scenario.Read(context.Background(), c.Loader(), q)
	require.NoError(t, err)
	var want []string
	for _, s := range shards {
		want = append(want, scenario.Texts(s.Rows())...)
	}
	steps := max(len(shards[0].Batches), len(shards[1].Batches))
	for step := 1; step <= steps; step++ {
		var before []string
		var cursors dataset.Cursors
		for _, s := range shards {
			n := min(step, len(s.Batches))
			for _, b := range s.Batches[:n] {
				before = append(before, scenario.Texts(b)...)
			}
			if n == 0 {
				cursors = append(cursors, s.Report.Cursor)
				continue
			}
			cursors = append(cursors, s.Cursors[n-1])
		}
		for _, of := range []int{1, 2, 4} {
			next := q
			if step%2 == 0 { // the plan comes from the cursor
				next = dataset.Query{Rows: dataset.Rows{Dataset: q.Dataset}, Reading: dataset.Reading{Columns: q.Columns, Dense: q.Dense, Wire: q.Wire}}
			}
			next.Cursor, next.Shard, next.BatchRows = cursors, dataset.Shard{Index: dataset.AllShards, Of: of}, 4*(1+step%3)
			rest, err := scenario.Read(context.Background(), c.Loader(), next)
			require.NoError(t, err)
			got := slices.Clone(before)
			for _, s := range rest {
				got = append(got, scenario.Texts(s.Rows())...)
			}
			require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(got), "resume at step %d with %d shards", step, of)
		}
	}
	resumeOne(t, c, q, shards[1])
}

// resumeOne resumes one shard from each of its own cursors and checks that the next
// rows follow in order.
func resumeOne(t *testing.T, c *scenario.Made, q dataset.Query, shard scenario.Shard) {
	t.Helper()
	all := scenario.Texts(shard.Rows())
	given := 0
	for i, cursor := range shard.Cursors {
		given += len(shard.Batches[i])
		next := q
		next.Cursor, next.Shard = dataset.Cursors{cursor}, shard.Report.Cursor.Shard
		rest, err := scenario.Read(context.Background(), c.Loader(), next)
		require.NoError(t, err)
		require.Equal(t, all[given:], append([]string{}, scenario.Texts(rest[0].Rows())...), "after batch %d", i)
		require.Equal(t, shard.Report.Cursor, rest[0].Report.Cursor, "the end is the same")
	}
}
