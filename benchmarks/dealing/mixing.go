package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// The tables and batches of records 0036 and 0037, which measure how well batches are mixed.
const (
	mixedRows   = 300_000
	mixedBatch  = 1024
	mixedWindow = 2048
	mixedEpochs = 6
	shardsOfJob = 8
)

// quality says how well the batches of several epochs are mixed.
type quality struct {
	day    float64 // the deviation of the mean time of batches, over that of draws of whole requests
	bucket float64 // the deviation of the rows per bucket of batches, over that of draws of whole requests
	job    float64 // how often two rows that shared a step share one in the next epoch, over chance
	rank   float64 // the same for the batch of one of shardsOfJob shards
	kept   float64 // the share of rows that come to the same lane in the next epoch
}

// rowIDs numbers the rows of a plan's splits, equally in each epoch.
type rowIDs struct {
	first  map[string]int32 // by split
	time   []float64        // by row, from 0 to 1
	bucket []int
}

func numbered(p *plan.Plan, days int) rowIDs {
	ids := rowIDs{first: map[string]int32{}}
	splits := slices.Clone(p.Splits)
	slices.SortFunc(splits, func(a, b plan.Split) int { return strings.Compare(a.Files[0].File.Location, b.Files[0].File.Location) })
	for _, s := range splits {
		ids.first[s.ID] = int32(len(ids.time))
		day, _ := s.Partition[0].(int64)
		for row := range s.Rows {
			ids.time = append(ids.time, (float64(day)+float64(row)/float64(s.Rows))/float64(days))
			ids.bucket = append(ids.bucket, s.Bucket.ID)
		}
	}
	return ids
}

// lane returns the rows of a lane in their order.
func (ids rowIDs) lane(p *plan.Plan, lane int, random *rand.Rand) []int32 {
	var out []int32
	for _, run := range p.Runs(lane) {
		windows := make([][]int32, run.Windows)
		for part := range run.Parts {
			for _, s := range run.Sections(part, 0) {
				first := ids.first[p.Splits[s.Rows.Split].ID]
				for row := s.Rows.From; row < s.Rows.To; row++ {
					w := run.WindowOf(part, s, row)
					windows[w] = append(windows[w], first+int32(row))
				}
			}
		}
		for _, rows := range windows {
			out = append(out, permuted(rows, random)...)
		}
	}
	return out
}

// permuted returns the rows of a window with its requests in a random order.
func permuted(rows []int32, random *rand.Rand) []int32 {
	slices.Sort(rows)
	var requests [][]int32
	for i, row := range rows {
		if i == 0 || row/requestLen != rows[i-1]/requestLen {
			requests = append(requests, nil)
		}
		requests[len(requests)-1] = append(requests[len(requests)-1], row)
	}
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	return slices.Concat(requests...)
}

// steps returns the rows of each step of an epoch, lane after lane.
func (ids rowIDs) steps(p *plan.Plan, random *rand.Rand) [][]int32 {
	share := mixedBatch / len(p.Lanes)
	count := math.MaxInt
	lanes := make([][]int32, len(p.Lanes))
	for i := range lanes {
		lanes[i] = ids.lane(p, i, random)
		count = min(count, len(lanes[i])/share)
	}
	out := make([][]int32, count)
	for step := range out {
		for _, rows := range lanes {
			out[step] = append(out[step], rows[step*share:(step+1)*share]...)
		}
	}
	return out
}

// ofRanks returns the batches of each shard of the job: shard i has lanes i, i + shardsOfJob and so on.
func ofRanks(steps [][]int32, lanes int) [][]int32 {
	share := mixedBatch / lanes
	var out [][]int32
	for _, step := range steps {
		for shard := range shardsOfJob {
			var batch []int32
			for lane := shard; lane < lanes; lane += shardsOfJob {
				batch = append(batch, step[lane*share:(lane+1)*share]...)
			}
			out = append(out, batch)
		}
	}
	return out
}

// mixingOf measures a way to deal the splits of a layout.
func mixingOf(ctx context.Context, of layout, w way, lanes int) (quality, error) {
	of.rows = mixedRows
	l, err := of.drawn()
	if err != nil {
		return quality{}, err
	}
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same draws each time
	var q quality
	var before [][]int32
	var ids rowIDs
	var last *plan.Plan
	for epoch := range int64(mixedEpochs) {
		p, err := w.deal(ctx, l, dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRequests, ShuffleWindow: mixedWindow, Seed: seed, Epoch: epoch, Lanes: lanes})
		if err != nil {
			return quality{}, err
		}
		if epoch == 0 {
			ids = numbered(p, of.days)
		}
		steps := ids.steps(p, random)
		q.day += ids.ofTime(steps) / mixedEpochs
		q.bucket += ids.ofBuckets(steps) / mixedEpochs
		if epoch > 0 {
			q.job += again(before, steps, len(ids.time)) / (mixedEpochs - 1)
			q.rank += again(ofRanks(before, lanes), ofRanks(steps, lanes), len(ids.time)) / (mixedEpochs - 1)
			q.kept += keptRows(last, p) / (mixedEpochs - 1)
		}
		before, last = steps, p
	}
	return q, nil
}

// ofTime returns the standard deviation of the mean times of batches, over that of draws of whole requests.
func (ids rowIDs) ofTime(batches [][]int32) float64 {
	var sum, squares float64
	for _, batch := range batches {
		mean := 0.0
		for _, row := range batch {
			mean += ids.time[row] / float64(len(batch))
		}
		sum, squares = sum+mean, squares+mean*mean
	}
	n := float64(len(batches))
	return math.Sqrt(squares/n-sum*sum/n/n) / math.Sqrt(requestLen/12.0/mixedBatch)
}

// ofBuckets returns the root of the mean square of the rows per bucket of batches, over that of draws of whole requests.
func (ids rowIDs) ofBuckets(batches [][]int32) float64 {
	expected := make([]float64, buckets)
	for _, b := range ids.bucket {
		expected[b] += mixedBatch / float64(len(ids.bucket))
	}
	squares := 0.0
	for _, batch := range batches {
		found := make([]float64, buckets)
		for _, row := range batch {
			found[ids.bucket[row]]++
		}
		for b := range found {
			squares += (found[b] - expected[b]) * (found[b] - expected[b]) / expected[b]
		}
	}
	return math.Sqrt(squares / float64(len(batches)) / (buckets - 1) / requestLen)
}

// again returns how often two rows of different requests that shared a batch share one again, over chance.
func again(first, second [][]int32, rows int) float64 {
	of := make([]int32, rows)
	for i := range of {
		of[i] = -1
	}
	for i, batch := range second {
		for _, row := range batch {
			of[row] = int32(i)
		}
	}
	shared, pairs := 0.0, 0.0
	for _, batch := range first {
		byBatch, byRequest, byBoth := map[int32]float64{}, map[int32]float64{}, map[[2]int32]float64{}
		known := 0.0
		for _, row := range batch {
			if of[row] >= 0 {
				known++
				byBatch[of[row]]++
				byRequest[row/requestLen]++
				byBoth[[2]int32{of[row], row / requestLen}]++
			}
		}
		shared += squaresOf(byBatch) - squaresOf(byBoth)
		pairs += known*known - squaresOf(byRequest)
	}
	return shared / pairs * float64(len(second))
}

func squaresOf[K comparable](counts map[K]float64) float64 {
	sum := 0.0
	for _, n := range counts {
		sum += n * n
	}
	return sum
}

// keptRows returns the share of rows that are in the same lane in both plans.
func keptRows(first, second *plan.Plan) float64 {
	type place struct {
		split string
		lane  int
	}
	before := map[place][]plan.Range{}
	for lane, l := range first.Lanes {
		for _, r := range l.Ranges {
			at := place{first.Splits[r.Split].ID, lane}
			before[at] = append(before[at], r)
		}
	}
	same := int64(0)
	for lane, l := range second.Lanes {
		for _, r := range l.Ranges {
			for _, of := range before[place{second.Splits[r.Split].ID, lane}] {
				same += max(0, min(r.To, of.To)-max(r.From, of.From))
			}
		}
	}
	return float64(same) / float64(second.StoredRows)
}
