package joined

import (
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

// laneState is what a Ranges holds of one lane.
//
// Invariants:
//   - references has one reference per staging input for the open range, and keeps them
//     until the lane opens its next range or releases its last one;
//   - built and reading hold what was prefetched for ranges that the lane has not opened
//     yet; opening a range takes its entries.
type laneState struct {
	LaneRanges
	references laneReferences
	open       *OpenRange             // nil: none, or its counts were taken back
	resume     *resumption            // where the first range continues; nil: it was not begun before
	reached    int                    // index of the last range that was prefetched
	built      map[int]laneReferences // by range index; elements may be nil
	reading    map[int]scanned        // by range index
}

// scanned holds the training rows of a range that is read before it is opened.
type scanned struct {
	at   plan.Range
	rows SourceRows
}

// resumption marks the rows of a range, up to row, as counted when the range was read
// before.
type resumption struct {
	index int   // of the range in the lane
	row   int64 // in the range's final sequence
}

func newLaneState(l LaneRanges) *laneState {
	return &laneState{LaneRanges: l, built: map[int]laneReferences{}, reading: map[int]scanned{}}
}

// laneReferences are references to build sides, one per staging input.
type laneReferences []*buildside.Reference

// release releases the references, any of which may be nil.
func (r laneReferences) release() {
	for _, one := range r {
		if one != nil {
			one.Release()
		}
	}
}

// bytes returns the stored size of the files that are referred to.
func (r laneReferences) bytes() int64 {
	sum := int64(0)
	for _, one := range r {
		if one != nil {
			sum += one.Bytes()
		}
	}
	return sum
}

// acquire acquires the file groups that a range of a lane needs before it releases those
// of the lane's last range, so that a group that both need stays loaded. It uses what was
// prefetched for the range.
func (s *Ranges) acquire(l *laneState, index int, at plan.Range) {
	last, held := l.references, l.built[index]
	if held == nil {
		held = make(laneReferences, len(s.staging))
	}
	delete(l.built, index)
	for i, in := range s.staging {
		in.groups.MarkReached(at)
		if held[i] == nil {
			held[i] = in.groups.Reference(at)
		}
		held[i].Pin()
	}
	l.references = held
	last.release()
}
