package loader_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// rowsOf reads a case and returns its rows as text, in order.
func rowsOf(t *testing.T, c *scenario.Case, options loader.Options) []string {
	t.Helper()
	m := loadertest.Made(t, c)
	options.Datasets, options.Catalog, options.Scan = []dataset.Dataset{c.Dataset}, m.World, m.Scan
	shards, err := scenario.Read(context.Background(), loader.New(options), c.Query)
	require.NoError(t, err, c.Name)
	var rows []string
	for _, s := range shards {
		rows = append(rows, scenario.Texts(s.Rows())...)
	}
	return rows
}

// TestStrategiesGiveTheSameRows reads cases with each strategy.
//
// spec: join-40
func TestStrategiesGiveTheSameRows(t *testing.T) {
	t.Parallel()
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 5, 200), func(*scenario.Case) {}) {
		want := rowsOf(t, c, loader.Options{})
		for _, strategy := range []rule.Strategy{
			rule.StrategyAuto, rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip, rule.StrategyBroadcast,
		} {
			d := c.Clone()
			for i := range d.Dataset.Staging {
				d.Dataset.Staging[i].Strategy = strategy
			}
			require.Equal(t, want, rowsOf(t, d, loader.Options{}), "%s with %s", c.Name, strategy)
		}
	}
}

// TestCodesGiveTheSameRows reads cases with codes of staging tables' texts, and without, with memory
// for build sides and with little.
func TestCodesGiveTheSameRows(t *testing.T) {
	t.Parallel()
	_, create := loadertest.Disk(t, 0)
	for i, c := range loadertest.Generated(t, loadertest.Cases(share, 20, 400), func(*scenario.Case) {}) {
		d := c.Clone()
		d.NoCodes = true
		options := loader.Options{}
		if i%3 == 0 {
			options = loader.Options{Budget: budget.New(1 << 20), Disk: create}
		}
		require.Equal(t, rowsOf(t, d, options), rowsOf(t, c, options), c.Name)
	}
}

// TestCutsGiveTheSameRows reads cases in other batches.
//
// spec: order-14
func TestCutsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 5, 200), loadertest.Whole) {
		want := rowsOf(t, c, loader.Options{})
		for i := range 4 {
			d := c.Clone()
			d.ScanRows, d.Query.BatchRows = 1+i*5, d.Query.Lanes*(1+i*9)
			if d.Query.Lanes == 1 {
				require.Equal(t, want, rowsOf(t, d, loader.Options{}), "%s, batches of %d", c.Name, d.Query.BatchRows)
				continue
			}
			require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(rowsOf(t, d, loader.Options{})), "%s, batches of %d", c.Name, d.Query.BatchRows)
		}
	}
}

// TestStagingLayoutsGiveTheSameRows writes the staging tables in other layouts.
//
// spec: order-14
func TestStagingLayoutsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 5, 200), func(c *scenario.Case) { layStaging(c, func(int) []string { return []string{"bucket(8,%s)"} }) }) {
		want := rowsOf(t, c, loader.Options{})
		for i, specs := range [][]string{
			{"bucket(1,%s)"}, {"bucket(7,%s)"}, {"bucket(12,%s)", "bucket(16,%s)"}, {""}, {"bucket(3,%s)", ""}, {"%s"}, {"truncate(2,%s)", "bucket(5,%s)", "%s"},
		} {
			d := c.Clone()
			layStaging(d, func(k int) []string { return specs[k%len(specs):] })
			for k := range d.Staging {
				for at := range d.Staging[k].Commits {
					d.Staging[k].Commits[at].FileRows = i * at
				}
			}
			require.Equal(t, want, rowsOf(t, d, loader.Options{}), "%s in %v", c.Name, specs)
		}
	}
}

// layStaging gives each staging table that is not aligned the partition specs of a
// pattern over its first key column, and commits use them in turn. Equal keys of a
// commit are then in one file, so that their order is preserved. A table of two entries
// becomes two tables, since the keys of the entries may differ.
func layStaging(c *scenario.Case, specs func(table int) []string) {
	for k := range c.Staging {
		c.Staging[k].Name = fmt.Sprintf("features.t%d", k)
		c.Dataset.Staging[k].Table = c.Staging[k].Name
		entry, table := c.Dataset.Staging[k], &c.Staging[k]
		if entry.Align != nil {
			continue
		}
		table.Specs = nil
		for _, pattern := range specs(k) {
			text := pattern
			if pattern != "" {
				text = fmt.Sprintf(pattern, entry.Key[0].Staging)
			}
			table.Specs = append(table.Specs, text)
		}
		for i := range table.Commits {
			table.Commits[i].Spec = i % len(table.Specs)
		}
	}
}

// TestTrainingLayoutsGiveTheSameRows writes the training table in other layouts: other
// bucket counts, other partitions around the bucket, none at all, files of several
// specs, files that are cut. The rows are the same, but their order may differ.
//
// spec: order-18
func TestTrainingLayoutsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	free := func(c *scenario.Case) {
		loadertest.Whole(c)
		c.Dataset.Training.Distinct = nil
		for i := range c.Dataset.Staging {
			c.Dataset.Staging[i].Align = nil
		}
	}
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 5, 200), free) {
		want := rowsOf(t, c, loader.Options{})
		for i, specs := range [][]string{
			{"bucket(1,k)"}, {"bucket(7,k)"}, {"day bucket(12,k)", "bucket(16,k)"}, {""}, {"bucket(3,k)", "region"}, {"hour(ts) bucket(4,k2)", "bucket(2,k) bucket(3,k2)"},
		} {
			d := c.Clone()
			d.Training.Specs = specs
			for at := range d.Training.Commits {
				d.Training.Commits[at].Spec, d.Training.Commits[at].FileRows = at%len(specs), i*at
			}
			d.Query.Lanes, d.Query.BatchRows = 1+i, 6*(1+i)
			require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(rowsOf(t, d, loader.Options{})), "%s in %v", c.Name, specs)
		}
	}
}

// TestShardsAndRestartsOfEveryRule reads cases with each number of shards and resumes
// from each cursor.
//
// spec: order-13, cursor-10, cursor-11
func TestShardsAndRestartsOfEveryRule(t *testing.T) {
	t.Parallel()
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 3, 60), func(c *scenario.Case) {
		loadertest.Whole(c)
		c.Query.Lanes, c.Query.BatchRows = 4, 8
	}) {
		m := loadertest.Made(t, c)
		var want [][]string
		for _, of := range []int{1, 2, 4} {
			q := c.Query
			q.Shard.Of, q.BatchRows = of, 4/of*3
			shards, err := scenario.Read(context.Background(), m.Loader(), q)
			require.NoError(t, err)
			steps := loadertest.GlobalSteps(shards)
			if of == 1 {
				want = steps
			}
			require.Equal(t, want, steps, "%s, %d shards", c.Name, of)
		}
		q := c.Query
		q.Shard.Of, q.BatchRows = 2, 10
		resumeEverywhere(t, m, q)
	}
}

// TestSampleAndComplementHaveAllRows checks that a sample and its complement are disjoint and together
// have all rows, and that a rate keeps the same rows of those that `where` selects, but
// not all of them, whatever the batches.
//
// spec: join-80, join-81
func TestSampleAndComplementHaveAllRows(t *testing.T) {
	t.Parallel()
	plain := func(c *scenario.Case) {
		loadertest.Whole(c)
		c.Query.Sample, c.Query.Dense, c.Dataset.Training.Distinct = nil, nil, nil
	}
	named, kept := 0, 0
	for i, c := range loadertest.Generated(t, loadertest.Cases(share, 10, 200), plain) {
		want := rowsOf(t, c, loader.Options{})
		for _, by := range []dataset.SampleBy{dataset.SampleByRequest, dataset.SampleByKey} {
			a, b := float64(i%8)/8, 0.3+float64(i%5)/8
			if a == b {
				continue
			}
			part, rest := c.Clone(), c.Clone()
			part.Query.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: a, To: b}, By: by, Rate: 1}
			rest.Query.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: b, To: a}, By: by, Rate: 1}
			require.Equal(t, loadertest.Sorted(want), loadertest.Sorted(slices.Concat(rowsOf(t, part, loader.Options{}), rowsOf(t, rest, loader.Options{}))), "%s by %s", c.Name, by)
		}
		rated := c.Clone()
		rated.Dataset.Computed = nil
		rated.Dataset.Staging, rated.Staging, rated.Query.Columns, rated.Query.Filter = nil, nil, []dataset.Column{{Column: "label"}}, dataset.Filter{}
		all := rowsOf(t, rated, loader.Options{})
		rated.Query.Sample = &dataset.Sample{By: dataset.SampleByRequest, Rate: 0.25, Where: datasettest.Filter("label = 0")}
		some := rowsOf(t, rated, loader.Options{})
		rated.ScanRows, rated.Query.BatchRows = 3, rated.Query.Lanes
		require.Equal(t, loadertest.Sorted(some), loadertest.Sorted(rowsOf(t, rated, loader.Options{})), "the same rows in other batches")
		count := func(rows []string, text string) (n int) {
			for _, row := range rows {
				if row == text {
					n++
				}
			}
			return n
		}
		require.Equal(t, count(all, "[1]"), count(some, "[1]"), "rows that where does not name stay")
		named, kept = named+count(all, "[0]"), kept+count(some, "[0]")
	}
	require.Positive(t, kept)
	require.Less(t, kept, named)
}

// TestRatesKeepTheirShare checks that a rate keeps its share within four standard
// deviations. Small worlds cannot test this: the draw of a row depends on its file's
// location and its position, and all of them have the same few of these.
//
// spec: join-81
func TestRatesKeepTheirShare(t *testing.T) {
	t.Parallel()
	const rows, rate, drawn = 12_000, 0.25, 8_000
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	loadertest.Rows("ml.train", "id:long label:int", "bucket(4,id)", rows, func(i int) string { return fmt.Sprint(i, " ", max(0, i%3-1)) }).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan})
	q := loadertest.OneShard(2, 512)
	q.Sample = &dataset.Sample{By: dataset.SampleByRequest, Rate: rate, Where: datasettest.Filter("label = 0")}
	shards, err := scenario.Read(context.Background(), l, q)
	require.NoError(t, err)
	kept := len(scenario.Texts(shards[0].Rows())) - (rows - drawn)
	require.InDelta(t, rate*drawn, kept, 4*math.Sqrt(rate*(1-rate)*drawn))
}

// TestStreamsThatShareBuildSides reads many datasets over the same tables concurrently
// from one loader: streams with other rules, filters or columns must not share build
// sides.
func TestStreamsThatShareBuildSides(t *testing.T) {
	t.Parallel()
	timed := func(c *scenario.Case) {
		loadertest.Whole(c)
		c.Query.Columns, c.Query.Dense, c.Query.Filter = nil, nil, dataset.Filter{}
		for i := range c.Dataset.Staging {
			s := &c.Dataset.Staging[i]
			if (s.Join == rule.Left || s.Join == rule.Inner) && s.Duplicates != rule.DuplicatesAll {
				s.PointInTime = &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: dataset.Lag{Time: 50 * time.Hour}}
				if s.Columns != nil {
					s.Columns = append(s.Columns, dataset.Column{Column: "ts", Name: s.Name + "_ts"})
				}
			}
		}
	}
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 3, 100), timed) {
		m := loadertest.Made(t, c)
		variants := sharing(c)
		l := loader.New(loader.Options{Catalog: m.World, Scan: m.Scan})
		var group errgroup.Group
		for i, v := range variants {
			v.Query.Dataset, v.Query.Inline = "", &v.Dataset
			want := v.Expect(m.World)
			for range 2 {
				group.Go(func() error {
					shards, err := scenario.Read(context.Background(), l, v.Query)
					if difference := want.Compare(shards, err); difference != (scenario.Difference{}) {
						return fmt.Errorf("%s, variant %d: %s\n%s", c.Name, i, difference.Kind, difference.Text)
					}
					return nil
				})
			}
		}
		require.NoError(t, group.Wait())
	}
}

// sharing returns a case with other rules over the same tables.
func sharing(c *scenario.Case) []*scenario.Case {
	var variants []*scenario.Case
	for _, change := range []func(*dataset.Staging){
		func(*dataset.Staging) {},
		func(s *dataset.Staging) { s.Strategy = rule.StrategyBroadcast },
		func(s *dataset.Staging) { s.Filter = datasettest.Filter("version < 2") },
		func(s *dataset.Staging) { s.OrderBy = []dataset.OrderBy{{Column: "version", Descending: true}} },
		func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesFirst },
		func(s *dataset.Staging) { s.Duplicates = rule.DuplicatesLast },
		func(s *dataset.Staging) { s.PointInTime = nil },
		func(s *dataset.Staging) { s.Align = nil },
		func(s *dataset.Staging) { s.Missing, s.Defaults = rule.MissingNull, nil },
		func(s *dataset.Staging) { s.MatchedAs = "" },
		func(s *dataset.Staging) {
			s.Columns = slices.Clone(s.Columns)
			for i := range s.Columns {
				if c := &s.Columns[i]; c.First > 0 || c.Last > 0 {
					c.First, c.Last = c.Last, c.First
				}
			}
		},
		func(s *dataset.Staging) { s.Key = []dataset.KeyPair{{Training: "k2", Staging: "req2"}} },
	} {
		v := c.Clone()
		v.Dataset.Name = ""
		for i := range v.Dataset.Staging {
			if s := &v.Dataset.Staging[i]; s.Join != rule.Semi && s.Join != rule.Anti {
				change(s)
			}
		}
		variants = append(variants, v)
	}
	return variants
}

// TestStagingIsReadOnce checks that, whatever the bucket counts, a stream of one lane
// reads each staging file at most once, unbucketed ones included.
//
// spec: resolve-2
func TestStagingIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, staging := range [][]int{{12}, {7}, {12, 7}, {16, 5, 3}} {
		for _, order := range []dataset.Order{dataset.Stored, dataset.Shuffled} {
			for seed := range uint64(loadertest.Cases(share, 4, 40)) {
				c, err := scenario.Random(seed, scenario.Shape{TrainingBuckets: 16, StagingBuckets: staging})
				require.NoError(t, err)
				q := loadertest.OneShard(1, 16)
				q.Order = order
				_, err = scenario.Read(context.Background(), c.Loader(), q)
				require.NoError(t, err)
				for file, times := range c.Scanned {
					if !strings.Contains(file, "/ml.train/") {
						require.Equal(t, 1, times, "%s with 16 against %v, seed %d", file, staging, seed)
					}
				}
				c.Release()
			}
		}
	}
}

// TestBudgetsGiveTheSameRows reads cases with budgets that hold everything, little, and
// almost nothing, and checks that they return the same rows in the same order, or fail
// with the reason.
//
// spec: join-50, join-66
func TestBudgetsGiveTheSameRows(t *testing.T) {
	t.Parallel()
	spilled := int64(0)
	for _, c := range loadertest.Generated(t, loadertest.Cases(share, 6, 200), func(*scenario.Case) {}) {
		want := rowsOf(t, c, loader.Options{})
		for _, limit := range []int64{loadertest.Plenty, 20_000, 6_000, 2_000} {
			m, b := loadertest.Made(t, c), budget.New(limit)
			s, create := loadertest.Disk(t, 0)
			shards, err := scenario.Read(context.Background(), loader.New(loader.Options{
				Datasets: []dataset.Dataset{c.Dataset}, Catalog: m.World, Scan: m.Scan, Budget: b, Disk: create,
			}), c.Query)
			require.Zero(t, b.Used())
			if err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(err), "%s with %d bytes: %v", c.Name, limit, err)
				continue
			}
			var rows []string
			for _, one := range shards {
				rows = append(rows, scenario.Texts(one.Rows())...)
			}
			require.Equal(t, want, rows, "%s with %d bytes", c.Name, limit)
			spilled += s.Stats().Written
		}
	}
	require.Positive(t, spilled)
}
