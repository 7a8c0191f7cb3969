package shuffle

import (
	"cmp"
	"math/bits"
	"slices"
)

// Bytes for each row of a window: for the order of the rows, and during sorting also for runs and
// slots.
const (
	bytesOfOrder   = 4 + 4
	bytesOfSorting = bytesOfOrder + 24 + 8
)

// run is a sequence of consecutive rows with the same priority in one of the window's batches.
type run struct {
	priority uint64
	batch    int32
	first    int32
	rows     int32
}

func compareRuns(a, b run) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.batch, b.batch), cmp.Compare(a.first, b.first))
}

// sortRows returns the rows of batches, sorted by priority. Rows of equal priority stay in their
// order.
func sortRows(priorities [][]uint64) order {
	total := 0
	for _, of := range priorities {
		total += len(of)
	}
	out := order{batches: make([]int32, total), numbers: make([]int32, total)}
	at := 0
	for _, r := range sortRuns(priorities) {
		for row := r.first; row < r.first+r.rows; row++ {
			out.batches[at], out.numbers[at] = r.batch, row
			at++
		}
	}
	return out
}

// crowded is the maximum number of runs in a slot that are sorted by insertion.
const crowded = 24

// sortRuns returns the runs of batches, sorted by priority. It distributes them over at least as
// many slots as there are runs. Priorities are evenly distributed, so each slot gets only a few
// runs.
func sortRuns(priorities [][]uint64) []run {
	count := 0
	eachRun(priorities, func(run) { count++ })
	if count == 0 {
		return nil
	}
	shift := 64 - bits.Len(uint(count-1))
	ends := make([]int32, 1<<(64-shift)+1)
	eachRun(priorities, func(r run) { ends[r.priority>>shift+1]++ })
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := make([]run, count)
	eachRun(priorities, func(r run) {
		slot := r.priority >> shift
		sorted[ends[slot]] = r
		ends[slot]++
	})
	from := int32(0)
	for _, to := range ends[:len(ends)-1] {
		sortSlot(sorted[from:to])
		from = to
	}
	return sorted
}

// eachRun calls f with the runs of the batches, in the order of the batches.
func eachRun(priorities [][]uint64, f func(run)) {
	for number, of := range priorities {
		for first := 0; first < len(of); {
			next := first + 1
			for next < len(of) && of[next] == of[first] {
				next++
			}
			f(run{priority: of[first], batch: int32(number), first: int32(first), rows: int32(next - first)})
			first = next
		}
	}
}

func sortSlot(runs []run) {
	if len(runs) > crowded {
		slices.SortFunc(runs, compareRuns)
		return
	}
	for i := 1; i < len(runs); i++ {
		for k := i; k > 0 && compareRuns(runs[k], runs[k-1]) < 0; k-- {
			runs[k], runs[k-1] = runs[k-1], runs[k]
		}
	}
}
