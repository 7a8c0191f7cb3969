package resolve

import (
	"slices"
	"sort"

	"github.com/penstock/penstock/internal/expr"
)

// ladder finds, among files with an interval each, those that may overlap
// another interval without looking at all of them.
type ladder struct {
	files []int32      // by lower bound, those without one first
	low   []expr.Value // of each
	reach []expr.Value // the greatest upper bound so far; no value once one is missing
}

// newLadder sorts files by their intervals. Bounds that do not compare make a
// ladder that narrows nothing.
func newLadder(files []int32, of func(int32) interval) ladder {
	l := ladder{files: slices.Clone(files)}
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
			return l
		}
	}
	slices.SortStableFunc(l.files, func(a, b int32) int {
		x, y := of(a).low, of(b).low
		order, ok := x.Compare(y)
		switch {
		case ok:
			return order
		case x == y:
			return 0
		case x == (expr.Value{}):
			return -1
		default:
			return 1
		}
	})
	var top expr.Value
	for at, f := range l.files {
		i := of(f)
		l.low = append(l.low, i.low)
		if order, ok := top.Compare(i.high); at == 0 || ok && order < 0 || i.high == (expr.Value{}) {
			top = i.high
		}
		if at > 0 && l.reach[at-1] == (expr.Value{}) {
			top = expr.Value{}
		}
		l.reach = append(l.reach, top)
	}
	return l
}

// near returns files among which all are that may overlap an interval.
func (l ladder) near(i interval) []int32 {
	from, to := 0, len(l.files)
	if len(l.reach) == 0 {
		return l.files
	}
	from = sort.Search(to, func(k int) bool { return !below(l.reach[k], i.low) })
	to = sort.Search(to, func(k int) bool { return below(i.high, l.low[k]) })
	return l.files[min(from, to):to]
}
