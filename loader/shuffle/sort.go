package shuffle

import (
	"cmp"
	"math/bits"
	"slices"
)

// bytesOfSorting is what sorting takes for each row: priority, order, runs and slots.
const bytesOfSorting = 8 + 4 + 16 + 4 + 16

// run is consecutive rows of one priority.
type run struct {
	priority    uint64
	first, rows int32
}

func compareRuns(a, b run) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.first, b.first))
}

// sortRows returns the rows by priority, and those of one priority as they stand.
func sortRows(priorities []uint64) []int32 {
	var runs []run
	for i, p := range priorities {
		if i > 0 && p == priorities[i-1] {
			runs[len(runs)-1].rows++
			continue
		}
		runs = append(runs, run{priority: p, first: int32(i), rows: 1})
	}
	order := make([]int32, 0, len(priorities))
	for _, r := range sortRuns(runs) {
		for row := r.first; row < r.first+r.rows; row++ {
			order = append(order, row)
		}
	}
	return order
}

// crowded is as many runs in one slot as are sorted by comparing neighbours.
const crowded = 24

// sortRuns sorts runs that stand as their rows do. Priorities are as good as drawn, so
// that each of as many slots as there are runs gets few of them.
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
