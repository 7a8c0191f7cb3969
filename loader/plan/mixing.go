package plan

import (
	"fmt"
	"math"
	"sort"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Limits of the figures for mixing.
const (
	sampledSteps = 1 << 10 // the number of steps of lanes that are looked at, about
	minSteps     = 16      // the least number of steps of each shard
)

// Mixing measures how well the batches of some shards of a query are mixed: the standard deviation of their mean stored
// position over that of batches of as many rows that are drawn independently. 1 is as good as independent rows. Requests
// that stay together make batches deviate more, since a batch has fewer of them than rows. It is 0 if the plan does not
// permute rows within windows.
//
// The stored position of a row is its place in the order of partitions and bucket counts, and among the rows of its
// bucket there, from 0 to 1. It follows time if the table was written in the order of time. Buckets do not count, since
// a bucket has requests of all times.
//
// The figure is computed from runs alone: rows that filters and deletes drop count. It looks at about a thousand
// steps of lanes, evenly spread.
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

// addSteps looks at up to the given number of steps, each with some rows of each lane. It adds the squared distances of their mean
// positions, times their rows, and those of the windows of these rows. They are expected means: rows of a window are in a
// random order.
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

// average is that of numbers.
type average struct{ n, sum float64 }

func (a *average) add(x float64) { a.n, a.sum = a.n+1, a.sum+x }

func (a *average) value() float64 { return a.sum / max(1, a.n) }

// distance returns the squared distance of a mean position from that of all rows.
func distance(mean float64) float64 { return (mean - 0.5) * (mean - 0.5) }

// placing is the stored positions of the rows of a split: the first one, and how far two rows are apart.
type placing struct{ first, step float64 }

// stratum is the splits of one partition and one bucket count.
type stratum struct {
	splits []int         // as they are stored
	rows   int64         // of all splits
	of     map[int]int64 // by bucket: its rows
}

// strataOf returns the strata of splits, as they are stored; order has the place of each.
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

// laneMeans computes the mean stored positions of rows of a lane.
type laneMeans struct {
	runs   []runMeans
	starts []int64 // by run: rows of the lane before it
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

// runAt returns the run that has a row of the lane.
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

// runMeans is a run with the sums of the positions of its rows.
type runMeans struct {
	Run
	before   []float64 // by range: of the ranges before it; and of all
	placings []placing // by split
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

// windowOf is WindowAt. It begins where windows of equal size would have the row: they differ by one row for each part.
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

// turn returns the sum of the positions of the first rows of a part's sequence, which goes round.
func (r *runMeans) turn(part RunPart, rows int64) float64 {
	start, end := part.first+part.start, part.first+part.rows
	if start+rows <= end {
		return r.stored(start+rows) - r.stored(start)
	}
	return r.stored(end) - r.stored(start) + r.stored(start+rows-part.rows) - r.stored(part.first)
}

// stored returns the sum of the positions of the first rows of the run as stored.
func (r *runMeans) stored(row int64) float64 {
	if row == r.Rows {
		return r.before[len(r.ranges)]
	}
	at := r.rangeOf(row)
	of := r.ranges[at]
	return r.before[at] + r.placings[of.Split].sum(of.From, of.From+row-r.starts[at])
}
