package shuffle

import (
	"cmp"
	"math/bits"
	"slices"
)

// Bytes for each row of a window: of its order, and while it is sorted also of runs and slots.
const (
	bytesOfOrder   = 4 + 4
	bytesOfSorting = bytesOfOrder + 2*24 + 8
)

// run is consecutive rows of one priority in one of the window's batches.
type run struct {
	priority uint64
	batch    int32
	first    int32
	rows     int32
}

func compareRuns(a, b run) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.batch, b.batch), cmp.Compare(a.first, b.first))
}

// sortRows returns the rows of batches by priority, with ties in their order: for each row
// its batch, and its number there.
func sortRows(priorities [][]uint64) (batches, rows []int32) {
	var runs []run
	total := 0
	for number, of := range priorities {
		total += len(of)
		for i, p := range of {
			if i > 0 && p == of[i-1] {
				runs[len(runs)-1].rows++
				continue
			}
			runs = append(runs, run{priority: p, batch: int32(number), first: int32(i), rows: 1})
		}
	}
	batches, rows = make([]int32, 0, total), make([]int32, 0, total)
	for _, r := range sortRuns(runs) {
		for row := r.first; row < r.first+r.rows; row++ {
			batches, rows = append(batches, r.batch), append(rows, row)
		}
	}
	return batches, rows
}

// crowded is the maximum number of runs in a slot for insertion sort.
const crowded = 24

// sortRuns sorts runs that are in the order of their rows. Priorities are evenly
// distributed, so that of as many slots as there are runs each gets few.
func sortRuns(runs []run) []run {
	if len(runs) < 2 {
		return runs
	}
	shift := 64 - bits.Len(uint(len(runs)-1))
	ends := make([]int32, 1<<(64-shift)+1)
	for _, r := range runs {
		ends[r.priority>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := make([]run, len(runs))
	for _, r := range runs {
		slot := r.priority >> shift
		sorted[ends[slot]] = r
		ends[slot]++
	}
	from := int32(0)
	for _, to := range ends[:len(ends)-1] {
		sortSlot(sorted[from:to])
		from = to
	}
	return sorted
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
