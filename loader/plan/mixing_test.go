package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
)

const mixedDays, mixedRows = 20, 12_000 // of each day

// layout is a table of twenty days. Bucket counts are by day: 0 for none. Partitions may be by day or not.
type layout struct {
	name    string
	buckets func(day int) int
	byDay   bool
}

// plan returns the plan of a query over the layout, and the time of a row of a split: 0 to 1.
func (l layout) plan(t *testing.T, rows dataset.Rows) (*plan.Plan, func(split int, row int64) float64) {
	t.Helper()
	table := plantest.Training(1)
	specs := map[int]int{} // by bucket count
	table.Specs = map[int]catalog.Spec{}
	var files []catalog.File
	days := map[string]int{}
	for day := range mixedDays {
		n := l.buckets(day)
		spec, known := specs[n]
		if !known {
			spec = len(specs)
			specs[n] = spec
			var fields catalog.Spec
			if l.byDay {
				fields = append(fields, plantest.Partitioned("day", 2, catalog.Identity, 0))
			}
			if n > 0 {
				fields = append(fields, plantest.Partitioned("bucket", 1, catalog.Bucket, n))
			}
			table.Specs[spec] = fields
		}
		for b := range max(n, 1) {
			name := fmt.Sprint("f", day, " ", b)
			f := plantest.File(name, int64(day), int64(b), int64(mixedRows/max(n, 1)), int64(day))
			f.Spec, f.Partition = spec, nil
			if l.byDay {
				f.Partition = append(f.Partition, int64(day))
			}
			if n > 0 {
				f.Partition = append(f.Partition, int64(b))
			}
			days[name], files = day, append(files, f)
		}
	}
	p := build(t, table, files, dataset.Query{Rows: rows})
	return p, func(split int, row int64) float64 {
		for _, f := range p.Splits[split].Files {
			if row < f.To-f.From {
				return (float64(days[f.File.Location]) + (float64(f.From+row)+0.5)/float64(f.File.Rows)) / mixedDays
			}
			row -= f.To - f.From
		}
		panic("no such row")
	}
}

// measured draws the batches of all shards row by row, and returns their deviation over that of independent rows.
func measured(p *plan.Plan, at func(split int, row int64) float64, batch, of int) float64 {
	random := rand.New(rand.NewPCG(1, 2))
	lanes := make([][]float64, len(p.Lanes))
	for lane := range lanes {
		for _, run := range p.Runs(lane) {
			windows := make([][]float64, run.Windows)
			for part := range run.Parts {
				for _, s := range run.Sections(part, 0) {
					for row := s.Rows.From; row < s.Rows.To; row++ {
						w := run.WindowOf(part, s, row)
						windows[w] = append(windows[w], at(s.Rows.Split, row))
					}
				}
			}
			for _, w := range windows {
				random.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
				lanes[lane] = append(lanes[lane], w...)
			}
		}
	}
	each := batch * of / len(lanes)
	squares, n := 0.0, 0
	for shard := range of {
		for step := range len(lanes[shard]) / each {
			sum, rows := 0.0, 0
			for lane := shard; lane < len(lanes); lane += of {
				for _, x := range lanes[lane][min(step*each, len(lanes[lane])):min((step+1)*each, len(lanes[lane]))] {
					sum, rows = sum+x, rows+1
				}
			}
			if rows == batch {
				squares, n = squares+(sum/float64(rows)-0.5)*(sum/float64(rows)-0.5), n+1
			}
		}
	}
	return math.Sqrt(squares / float64(n) * 12 * float64(batch))
}

// TestMixingIsAsMeasured: the figure for how well batches are mixed is that of rows that are drawn one by one, within 15 %, for tables of several layouts, numbers of lanes and streams, parts and windows.
//
// spec: order-30
func TestMixingIsAsMeasured(t *testing.T) {
	t.Parallel()
	none, four := func(int) int { return 0 }, func(int) int { return 4 }
	several := func(day int) int { return []int{4, 6, 9}[day*3/mixedDays] }
	const batch, factor = 512, 1.15
	for _, l := range []layout{{"days", none, true}, {"plain", none, false}, {"buckets", four, false}, {"both", four, true}, {"several", several, true}} {
		for _, c := range []struct {
			lanes, of     int
			window, parts int64
		}{{1, 1, 0, 0}, {8, 1, 0, 0}, {8, 8, 0, 0}, {8, 2, 0, 0}, {1, 1, 2048, 8}, {8, 1, 2048, 8}, {1, 1, 4096, 1}, {4, 4, 4096, 32}} {
			p, at := l.plan(t, dataset.Rows{
				Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, ShuffleWindow: c.window, ShuffleParts: c.parts, Lanes: c.lanes, Seed: 7,
			})
			var shards []dataset.Shard
			for i := range c.of {
				shards = append(shards, dataset.Shard{Index: i, Of: c.of})
			}
			got, want := p.Mixing(batch, shards...), measured(p, at, batch, c.of)
			require.InDelta(t, 1, got/want, factor-1, "%s, %+v: %.2f instead of %.2f", l.name, c, got, want)
		}
	}
}

// TestExplainNamesWhatMixesBetter: if batches are of few days, explain says by how much, and which settings would help.
//
// spec: order-30
func TestExplainNamesWhatMixesBetter(t *testing.T) {
	t.Parallel()
	days := layout{"days", func(int) int { return 0 }, true}
	texts := func(rows dataset.Rows, shard dataset.Shard) (full, note string) {
		if rows.Seed = 7; rows.Order.IsShuffled() {
			rows.Shuffle = dataset.ShuffleRows
		}
		p, _ := days.plan(t, rows)
		q := dataset.Query{Rows: rows, Reading: dataset.Reading{BatchRows: 512, Shard: shard}}
		return explain.Text(p, q, nil), explain.Summary(p, q, nil, 40)
	}
	for _, c := range []struct {
		what   string
		rows   dataset.Rows
		of     int
		better string
	}{
		{"one lane of eight in each stream", dataset.Rows{Lanes: 8}, 8, "lanes of each stream"},
		{"all lanes in one stream", dataset.Rows{Lanes: 8}, 1, ""},
		{"one part", dataset.Rows{Lanes: 1, ShuffleWindow: 32_768, ShuffleParts: 1}, 1, "shuffle_parts, shuffle_window or lanes of each stream"},
	} {
		c.rows.Order = dataset.Shuffled
		full, note := texts(c.rows, dataset.Shard{Of: c.of})
		require.Contains(t, full, "\nmixing\n", c.what)
		require.Equal(t, c.better != "", strings.Contains(full, "  to mix better, raise "), full)
		require.Equal(t, c.better != "", strings.Contains(note, " (1 is best): raise "), note)
		if c.better != "" {
			require.Contains(t, full, "  to mix better, raise "+c.better+"\n", c.what)
			require.Contains(t, note, " (1 is best): raise "+c.better+"\n", c.what)
		}
	}
	full, note := texts(dataset.Rows{Order: dataset.Stored, Lanes: 1}, dataset.Shard{Of: 1})
	require.NotContains(t, full+note, "mixing")
}
