package joined

import (
	"slices"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

// Lane opens the ranges of one lane of a stream, and prefetches those that come next.
//
// Invariants:
//   - references has one reference per staging input for the open range, and keeps them
//     until the lane opens its next range or releases its last one. The sections of a run have their own;
//     references are then those of the last section that was released, if no other one is open;
//   - built and reading hold what was prefetched for ranges that the lane has not opened
//     yet; opening a range takes its entries.
type Lane struct {
	LaneRanges
	stream     *Ranges
	rowsBefore []int64 // for each range: the number of training rows of the ranges before it
	references laneReferences
	open       counted                // an OpenRange or a RunJoin; nil: nothing is open, or the counts were dropped
	resume     *resumption            // where a range continues that was read before; nil: there is no such range
	reached    int                    // index of the last range that was prefetched
	built      map[int]laneReferences // by index of a range; the references in an element may be nil
	reading    map[plan.Range]SourceRows
	expected   map[plan.Range]plan.SharedRead // by the rows by which a section was declared; elements may be nil
	// reachedRanges is the number of ranges of which no further section will be opened.
	reachedRanges int
}

// counted returns the counts of joins, for each staging table that is read.
type counted interface{ Counts() []joiner.Counts }

// resumption says that the rows of a range before row were already counted when the range was read
// before.
type resumption struct {
	index int   // of the range in the lane
	row   int64 // a row of the range's final sequence
}

func newLane(s *Ranges, l LaneRanges) *Lane {
	before, rows := make([]int64, len(l.Ranges)+1), int64(0)
	for i, r := range l.Ranges {
		rows += r.To - r.From
		before[i+1] = rows
	}
	return &Lane{
		LaneRanges: l, stream: s, rowsBefore: before,
		built: map[int]laneReferences{}, reading: map[plan.Range]SourceRows{}, expected: map[plan.Range]plan.SharedRead{},
	}
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

// pinned returns the references of the open range, or of the open sections of a run.
func (l *Lane) pinned() laneReferences {
	all := l.references
	if r, ok := l.open.(*RunJoin); ok {
		for _, o := range r.open {
			all = append(slices.Clip(all), o.references...)
		}
	}
	return all
}

// bytes returns the stored size of the files of the referenced groups.
func (r laneReferences) bytes() int64 {
	sum := int64(0)
	for _, one := range r {
		if one != nil {
			sum += one.Bytes()
		}
	}
	return sum
}

// acquire first acquires the file groups that a range needs, and then releases the groups of the
// lane's previous range. So a group that both ranges need stays in memory. It uses what was
// prefetched for the range.
func (l *Lane) acquire(index int, at plan.Range) {
	last, held := l.references, l.built[index]
	if held == nil {
		held = make(laneReferences, len(l.stream.staging))
	}
	delete(l.built, index)
	for i, in := range l.stream.staging {
		in.groups.MarkReached(at)
		if held[i] == nil {
			held[i] = in.groups.Reference(at)
		}
		held[i].Pin()
	}
	l.references = held
	last.release()
}
