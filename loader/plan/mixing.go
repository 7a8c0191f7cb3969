package plan

import (
	"fmt"
	"math"
	"sort"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Limits for measuring the mixing.
const (
	sampledSteps = 1 << 10 // about how many steps are measured in all, counting each step once for each of its lanes
	minSteps     = 16      // the minimum number of measured steps of each shard
)

// Mixing measures how well the batches of some shards of a query are mixed. It returns the standard
// deviation of the batches' mean stored positions, divided by the same deviation for batches of
// independently drawn rows. 1 is as good as independent rows. If the rows of requests stay
// together, the result is larger, since a batch has fewer requests than rows. The result is 0 if
// the plan does not permute rows within windows.
//
// The stored position of a row is a number from 0 to 1. It is determined first by the order of
// partitions and bucket counts, and then by the row's position among the rows of its bucket. If the
// table was written in the order of time, stored positions are in the order of time too. The number
// of the bucket does not matter, since every bucket has requests of all times.
//
// The result is computed from the runs alone, so it includes rows that filters and deletes drop.
// Mixing measures only some of the steps, at equal distances: about a thousand, counting each step
// once for each of its lanes.
func (p *Plan) Mixing(batchRows int64, shards ...dataset.Shard) float64 {
	if p.Rows.ShuffleWindow == 0 || p.StoredRows == 0 {
		return 0
	}
	of := positionsOf(p.Splits, p.storedOrder)
	var batches, windows average
	for _, shard := range shards {
		var lanes []laneMeans
		for lane := shard.Index; lane < len(p.Lanes); lane += shard.Of {
			lanes = append(lanes, meansOf(p.Runs(lane), of))
		}
		looked := max(minSteps, sampledSteps/max(1, len(lanes)*len(shards)))
		addSteps(lanes, max(1, batchRows/int64(max(1, len(lanes)))), int64(looked), &batches, &windows)
	}
	const ofRows = 1.0 / 12 // the variance of positions
	within := max(0, ofRows-windows.value())
	return math.Sqrt((batches.value() + within) / ofRows)
}

// addSteps measures at most looked steps, each with the given number of rows of every lane. For
// each step, it adds the squared distance of the step's mean position, times the step's rows, to
// batches. It adds the squared distances of the mean positions of the windows of these rows to
// windows. The means are expected values, since rows of a window are in a random order.
func addSteps(lanes []laneMeans, rows, looked int64, batches, windows *average) {
	steps := int64(0)
	for _, l := range lanes {
		steps = max(steps, (l.rows+rows-1)/rows)
	}
	looked = min(steps, looked)
	for i := range looked {
		step := i * steps / looked
		sum, n := 0.0, int64(0)
		for _, l := range lanes {
			from, to := step*rows, min((step+1)*rows, l.rows)
			if from < to {
				sum, n = sum+l.sum(from, to), n+to-from
				windows.add(distance(l.windowMean(from)))
			}
		}
		batches.add(float64(n) * distance(sum/float64(n)))
	}
}

// average accumulates the average of numbers.
type average struct{ n, sum float64 }

func (a *average) add(x float64) { a.n, a.sum = a.n+1, a.sum+x }

func (a *average) value() float64 { return a.sum / max(1, a.n) }

// distance returns the squared distance between a mean position and the mean position of all rows.
func distance(mean float64) float64 { return (mean - 0.5) * (mean - 0.5) }

// placing describes the stored positions of the rows of a split: the position of the first row, and
// the distance between two rows.
type placing struct{ first, step float64 }

// stratum consists of the splits of one partition and one bucket count.
type stratum struct {
	splits []int         // in stored order
	rows   int64         // of all splits
	of     map[int]int64 // the number of rows, by bucket
}

// strataOf returns the strata of splits, in stored order. order has the position of each split in
// the stored order.
func strataOf(splits []Split, order []int) []*stratum {
	stored := make([]int, len(splits))
	for i, place := range order {
		stored[place] = i
	}
	var strata []*stratum
	known := map[string]*stratum{}
	for _, i := range stored {
		split := splits[i]
		key := fmt.Sprintf("%d %s", split.Bucket.Of, catalog.AppendPartition(nil, split.Partition))
		s := known[key]
		if s == nil {
			s = &stratum{of: map[int]int64{}}
			known[key], strata = s, append(strata, s)
		}
		s.splits, s.rows = append(s.splits, i), s.rows+split.Rows
		s.of[split.Bucket.ID] += split.Rows
	}
	return strata
}

// positionsOf returns the stored positions of the rows of each split, see Mixing.
func positionsOf(splits []Split, order []int) []placing {
	placings, before, strata := make([]placing, len(splits)), 0.0, strataOf(splits, order)
	all := int64(0)
	for _, s := range strata {
		all += s.rows
	}
	for _, s := range strata {
		size, row := float64(s.rows)/float64(all), map[int]int64{}
		for _, i := range s.splits {
			split := splits[i]
			id := split.Bucket.ID
			step := size / float64(max(1, s.of[id]))
			placings[i] = placing{first: before + step*(float64(row[id])+0.5), step: step}
			row[id] += split.Rows
		}
		before += size
	}
	return placings
}

// laneMeans computes mean stored positions of the rows of a lane.
type laneMeans struct {
	runs   []runMeans
	starts []int64 // for each run: the number of rows of the lane before it
	rows   int64
}

func meansOf(runs []Run, of []placing) laneMeans {
	var l laneMeans
	for _, r := range runs {
		m := runMeans{Run: r, before: make([]float64, len(r.ranges)+1), placings: of}
		for i, rows := range r.ranges {
			m.before[i+1] = m.before[i] + of[rows.Split].sum(rows.From, rows.To)
		}
		l.runs, l.starts = append(l.runs, m), append(l.starts, l.rows)
		l.rows += r.Rows
	}
	return l
}

// sum returns the sum of the positions of rows [from, to) of the split.
func (s placing) sum(from, to int64) float64 {
	n := float64(to - from)
	return n*s.first + s.step*n*(float64(from)+float64(to)-1)/2
}

// runAt returns the run that contains a row of the lane.
func (l laneMeans) runAt(row int64) int {
	return sort.Search(len(l.starts), func(i int) bool { return l.starts[i] > row }) - 1
}

// windowMean returns the mean position of the window of a row.
func (l laneMeans) windowMean(row int64) float64 {
	i := l.runAt(row)
	w := l.runs[i].windowOf(row - l.starts[i])
	return l.runs[i].windows(w, w+1) / float64(l.runs[i].RowsBefore(w+1)-l.runs[i].RowsBefore(w))
}

// sum returns the expected sum of the positions of rows [from, to) of the lane.
func (l laneMeans) sum(from, to int64) float64 {
	sum := 0.0
	for i := l.runAt(from); from < to; i++ {
		end := min(to, l.starts[i]+l.runs[i].Rows)
		sum += l.runs[i].sum(end-l.starts[i]) - l.runs[i].sum(from-l.starts[i])
		from = end
	}
	return sum
}

// runMeans is a run, with sums of the stored positions of its rows.
type runMeans struct {
	Run
	before   []float64 // for each range: the sum of the ranges before it; the last element is the sum of all ranges
	placings []placing // for each split, by its index
}

// sum returns the expected sum of the positions of the first rows that the run returns. Rows of a window are in a random
// order.
func (r *runMeans) sum(rows int64) float64 {
	if rows == r.Rows {
		return r.before[len(r.ranges)]
	}
	w := r.windowOf(rows)
	first, end := r.RowsBefore(w), r.RowsBefore(w+1)
	return r.windows(0, w) + r.windows(w, w+1)*float64(rows-first)/float64(end-first)
}

// windowOf returns the same as WindowAt, but is faster. It starts the search at the window that
// would contain the row if all windows had equal sizes. The sizes of windows differ by at most one
// row for each part.
func (r *runMeans) windowOf(row int64) int64 {
	w := min(int64(float64(row)/float64(r.Rows)*float64(r.Windows)), r.Windows-1)
	for w > 0 && r.RowsBefore(w) > row {
		w--
	}
	for r.RowsBefore(w+1) <= row {
		w++
	}
	return w
}

// windows returns the sum of the positions of the rows of windows [from, to).
func (r *runMeans) windows(from, to int64) float64 {
	sum := 0.0
	for _, part := range r.Parts {
		if part.rows == 0 {
			continue
		}
		sum += r.turn(part, part.blocks.before(to)) - r.turn(part, part.blocks.before(from))
	}
	return sum
}

// turn returns the sum of the positions of the first rows of a part's sequence, which wraps around.
func (r *runMeans) turn(part RunPart, rows int64) float64 {
	start, end := part.first+part.start, part.first+part.rows
	if start+rows <= end {
		return r.stored(start+rows) - r.stored(start)
	}
	return r.stored(end) - r.stored(start) + r.stored(start+rows-part.rows) - r.stored(part.first)
}

// stored returns the sum of the positions of the first rows of the run in stored order.
func (r *runMeans) stored(row int64) float64 {
	if row == r.Rows {
		return r.before[len(r.ranges)]
	}
	at := r.rangeOf(row)
	of := r.ranges[at]
	return r.before[at] + r.placings[of.Split].sum(of.From, of.From+row-r.starts[at])
}
