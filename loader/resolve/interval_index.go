package resolve

import (
	"slices"
	"sort"

	"github.com/penstock/penstock/internal/expr"
)

// intervalIndex holds the intervals of files, and finds the files that may overlap a given interval
// without scanning all of them.
type intervalIndex struct {
	files []int32      // by lower bound, absent bounds first
	low   []expr.Value // the lower bound of each file
	reach []expr.Value // for each file: the maximum upper bound of this file and the files before it; absent if any of these bounds is absent
}

// newIntervalIndex sorts files by their intervals. If bounds are not comparable, the index
// returns all files.
func newIntervalIndex(files []int32, of func(int32) interval) intervalIndex {
	x := intervalIndex{files: slices.Clone(files)}
	var sample expr.Value
	alike := func(v expr.Value) bool {
		if v != (expr.Value{}) && sample == (expr.Value{}) {
			sample = v
		}
		_, ok := v.Compare(sample)
		return ok || v == (expr.Value{})
	}
	for _, f := range files {
		if i := of(f); !alike(i.low) || !alike(i.high) {
			return x
		}
	}
	slices.SortStableFunc(x.files, func(a, b int32) int {
		first, second := of(a).low, of(b).low
		order, ok := first.Compare(second)
		switch {
		case ok:
			return order
		case first == second:
			return 0
		case first == (expr.Value{}):
			return -1
		default:
			return 1
		}
	})
	var top expr.Value
	for at, f := range x.files {
		i := of(f)
		x.low = append(x.low, i.low)
		if order, ok := top.Compare(i.high); at == 0 || ok && order < 0 || i.high == (expr.Value{}) {
			top = i.high
		}
		if at > 0 && x.reach[at-1] == (expr.Value{}) {
			top = expr.Value{}
		}
		x.reach = append(x.reach, top)
	}
	return x
}

// overlapping returns a superset of the files that may overlap an interval.
func (x intervalIndex) overlapping(i interval) []int32 {
	n := len(x.files)
	if len(x.reach) == 0 {
		return x.files
	}
	from := sort.Search(n, func(k int) bool { return !below(x.reach[k], i.low) })
	to := sort.Search(n, func(k int) bool { return below(i.high, x.low[k]) })
	return x.files[min(from, to):to]
}
