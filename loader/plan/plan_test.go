package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

func build(t *testing.T, table *catalog.Table, files []catalog.File, q dataset.Query) *plan.Plan {
	t.Helper()
	relation, err := resolve.Bind(dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: table.Name}}, table, nil)
	require.NoError(t, err)
	p, err := plantest.BindAndBuild(relation, plan.Files{Training: plan.Listing{Files: files}}, q.Defaults())
	require.NoError(t, err)
	return p
}

func buckets(p *plan.Plan) []int {
	var ids []int
	for _, s := range p.Splits {
		ids = append(ids, s.Bucket.ID)
	}
	return ids
}

// spec: order-5
func TestStoredOrderReversesBucketDigits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{
		16: {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15},
		12: {0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11},
		7:  {0, 1, 2, 3, 4, 5, 6},
	} {
		var files []catalog.File
		for b := range n {
			files = append(files, plantest.File(fmt.Sprint("f", b), int64(1), int64(b), 10, 1))
		}
		require.Equal(t, want, buckets(build(t, plantest.Training(n), files, dataset.Query{})), "bucket(%d)", n)
	}
}

// spec: order-4, order-6
func TestStoredOrderIsByPartitionBucketAndSequence(t *testing.T) {
	t.Parallel()
	files := []catalog.File{
		plantest.File("a", nil, int64(0), 10, 1), plantest.File("b", int64(2), nil, 10, 1), plantest.File("c", int64(2), int64(1), 10, 1),
		plantest.File("d", int64(1), int64(1), plan.SplitRows, 2), plantest.File("e", int64(1), int64(1), plan.SplitRows, 1), plantest.File("f", int64(1), int64(0), 10, 3),
	}
	slices.SortFunc(files, func(a, b catalog.File) int { return int(a.Sequence - b.Sequence) })
	p := build(t, plantest.Training(2), files, dataset.Query{})
	var got []string
	for _, s := range p.Splits {
		got = append(got, s.Files[0].File.Location)
	}
	require.Equal(t, []string{"f", "e", "d", "c", "b", "a"}, got)
}

// TestFileGroupsAreContiguous checks that for every modulus in the chain of a bucket
// count's factors, the splits of a residue class are adjacent in both orders.
//
// spec: order-7
func TestFileGroupsAreContiguous(t *testing.T) {
	t.Parallel()
	for n, moduli := range map[int][]int{16: {1, 2, 4, 8, 16}, 12: {1, 2, 4, 12}, 30: {2, 6, 30}} {
		var files []catalog.File
		for b := range n {
			for day := range int64(3) {
				files = append(files, plantest.File(fmt.Sprint("f", b, day), day, int64(b), 10, 1))
			}
		}
		for epoch := range int64(5) {
			p := build(t, plantest.Training(n), files, dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 1, Epoch: epoch}})
			for _, m := range moduli {
				runs := 0
				for i, b := range buckets(p) {
					if i == 0 || b%m != buckets(p)[i-1]%m {
						runs++
					}
				}
				require.Equal(t, m, runs, "bucket(%d) modulo %d", n, m)
			}
		}
	}
}

// TestSeedsGiveManyOrdersOfBuckets checks that a digit of a bucket is permuted for each
// prefix of digits. Permuted once for each position, 16 buckets have 16 orders.
//
// spec: order-7, order-8
func TestSeedsGiveManyOrdersOfBuckets(t *testing.T) {
	t.Parallel()
	for _, n := range []int{12, 16} {
		var files []catalog.File
		for b := range n {
			files = append(files, plantest.File(fmt.Sprint("f", b), int64(1), int64(b), 10, 1))
		}
		seeds, epochs, halves := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for i := range int64(300) {
			order := buckets(build(t, plantest.Training(n), files, dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: i}}))
			seeds[fmt.Sprint(order)] = true
			slices.Sort(order[:n/4])
			halves[fmt.Sprint(order[:n/4])] = true
			order = buckets(build(t, plantest.Training(n), files, dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Epoch: i}}))
			epochs[fmt.Sprint(order)] = true
		}
		require.GreaterOrEqual(t, len(seeds), 290, "bucket(%d)", n)
		require.GreaterOrEqual(t, len(epochs), 290, "bucket(%d)", n)
		require.Len(t, halves, 4, "bucket(%d): the first quarter is one residue class modulo 4", n)
	}
}

// spec: order-8, order-11
func TestShuffledDependsOnSeedAndEpochAlone(t *testing.T) {
	t.Parallel()
	var files []catalog.File
	for b := range 16 {
		files = append(files, plantest.File(fmt.Sprint("f", b), int64(b%3), int64(b), 10, 1))
	}
	q := dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 4, Epoch: 2, Lanes: 4}}
	first := build(t, plantest.Training(16), files, q)
	again := q
	again.BatchRows, again.Shard, again.Tail = 44, dataset.Shard{Index: 1, Of: 2}, dataset.TailDrop
	again.Columns = []dataset.Column{{Column: "day"}}
	require.Equal(t, first, build(t, plantest.Training(16), files, again))
	ids := map[string]bool{first.ID: true}
	orders := map[string]bool{fmt.Sprint(buckets(first)): true}
	for i, other := range []dataset.Query{
		{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 4, Epoch: 3, Lanes: 4}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 5, Epoch: 2, Lanes: 4}},
		{Rows: dataset.Rows{Order: dataset.Stored, Lanes: 4}},
	} {
		p := build(t, plantest.Training(16), files, other)
		ids[p.ID], orders[fmt.Sprint(buckets(p))] = true, true
		require.Len(t, ids, i+2)
		require.Len(t, orders, i+2)
	}
	for _, other := range []dataset.Query{
		{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 4, Epoch: 2, Lanes: 2}},
		{Rows: dataset.Rows{Order: dataset.Shuffled, Seed: 4, Epoch: 2, Lanes: 4, Filter: datasettest.Filter("day >= 0")}},
	} {
		ids[build(t, plantest.Training(16), files, other).ID] = true
	}
	require.Len(t, ids, 6)
}

// spec: order-1, order-2
func TestSplitsAreCutBeforeFiltersDropThem(t *testing.T) {
	t.Parallel()
	const rows = plan.SplitRows
	files := []catalog.File{
		plantest.File("a", int64(1), int64(0), rows/2, 1), plantest.File("b", int64(1), int64(0), 2*rows, 2),
		plantest.File("c", int64(2), int64(0), 5, 3), plantest.File("e", int64(1), int64(1), 5, 3),
	}
	p := build(t, plantest.Training(2), files, dataset.Query{})
	var got []string
	ids := map[string]plan.Split{}
	for _, s := range p.Splits {
		var text strings.Builder
		for _, f := range s.Files {
			fmt.Fprintf(&text, "%s[%d:%d]", f.File.Location, f.From, f.To)
		}
		got = append(got, text.String())
		ids[s.ID] = s
	}
	require.Equal(t, []string{
		"a[0:524288]b[0:524288]", "b[524288:1572864]", "b[1572864:2097152]", "e[0:5]", "c[0:5]",
	}, got)
	filtered := build(t, plantest.Training(2), files, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("day = 1")}})
	require.Len(t, filtered.Splits, 4)
	require.Equal(t, plan.Pruned{Splits: 1, Files: 1, Rows: 5}, filtered.Pruned)
	for _, s := range filtered.Splits {
		require.Contains(t, ids, s.ID, "a filter changes no split's id")
	}
}

// Replaced files are in the same splits, in the same order, with the same ids and ranges of lanes.
//
// spec: order-31
func TestReplacementsKeepSplits(t *testing.T) {
	t.Parallel()
	const rows = plan.SplitRows
	name := func(f catalog.File, number string) string {
		return catalog.ReplacementName("penstock-0123456789abcdef-00000000-"+number, f)
	}
	files := []catalog.File{
		plantest.File("t/a", int64(1), int64(0), rows/2, 1), plantest.File("t/b", int64(1), int64(0), 2*rows, 1),
		plantest.File("t/c", int64(2), int64(0), rows, 1), plantest.File("t/d", int64(2), int64(0), rows, 1),
	}
	lanes := func(files []catalog.File, shuffle dataset.Shuffle) (out []string) {
		q := dataset.Query{Rows: dataset.Rows{Lanes: 3}}
		if shuffle != "" {
			q.Order, q.Shuffle, q.Seed = dataset.Shuffled, shuffle, 7
		}
		files = slices.Clone(files)
		catalog.Arrange(files)
		p := build(t, plantest.Training(2), files, q)
		for _, l := range p.Lanes {
			for _, r := range l.Ranges {
				out = append(out, fmt.Sprint(p.Splits[r.Split].ID, r.From, r.To, p.ShuffleSeed(r.Split)))
			}
			out = append(out, "")
		}
		return out
	}
	replaced := slices.Clone(files)
	for _, round := range [][]string{{"00009", "00008", "00007", "00006"}, {"00001", "", "00003", "00002"}} {
		for i, number := range round {
			if number != "" {
				catalog.Arrange(replaced[i : i+1])
				replaced[i].Location = "t/" + name(replaced[i], number)
			}
		}
		for _, shuffle := range []dataset.Shuffle{"", dataset.ShuffleSplits, dataset.ShuffleRows} {
			require.Equal(t, lanes(files, shuffle), lanes(replaced, shuffle), shuffle)
		}
	}
	twice := append(slices.Clone(files), files[0])
	twice[4].Location = "t/" + name(files[0], "00001")
	catalog.Arrange(twice)
	ids := map[string]bool{}
	for _, s := range build(t, plantest.Training(2), twice, dataset.Query{}).Splits {
		ids[s.ID] = true
	}
	require.Len(t, ids, 5, "a file and its replacement in one table are different files")
}

func TestRangesCoverTheirSplits(t *testing.T) {
	t.Parallel()
	files := []catalog.File{plantest.File("a", int64(1), int64(0), 10, 1), plantest.File("b", int64(1), int64(0), 7, 2), plantest.File("c", int64(9), int64(0), 4, 2)}
	p := build(t, plantest.Training(1), files, dataset.Query{Rows: dataset.Rows{Lanes: 3, Filter: datasettest.Filter("day < 9")}})
	var got []string
	for _, l := range p.Lanes {
		for _, r := range l.Ranges {
			for _, f := range p.Training(r).Files {
				got = append(got, fmt.Sprintf("%s[%d:%d]", f.File.Location, f.From, f.To))
			}
		}
	}
	require.Equal(t, []string{"a[0:6]", "a[6:10]", "b[0:2]", "b[2:7]"}, got)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	table := plantest.Training(2)
	relation, err := resolve.Bind(dataset.Dataset{Name: "d", Training: dataset.Training{Table: table.Name}}, table, nil)
	require.NoError(t, err)
	for filter, want := range map[string]string{
		"nope = 1":   `filter`,
		"day = 'x'":  `filter`,
		"request_id": `filter`,
	} {
		_, err := plan.Bind(relation, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter(filter)}}.Defaults().Rows)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.Positive(t, fault.As(err).Faults[0].Position, filter)
	}
}
