package joined

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

const (
	// maxPrefetched is the maximum number of ranges that a stream prefetches. The first
	// row of a range takes two consecutive round trips to storage, and small ranges are
	// joined faster than that.
	maxPrefetched = 4
	// maxPrefetchedBytes bounds the training columns of the prefetched ranges beyond a
	// lane's next one, by their expected size in memory.
	maxPrefetchedBytes = 256 << 20
)

// prefetchAfter starts to read and build what the lane's ranges after the given one need,
// using spare memory, so that the lane does not wait for storage when it opens them. The
// number of ranges grows with the number of batches joined so far, so short reads waste
// little prefetch.
func (l *Lane) prefetchAfter(index int) {
	s := l.stream
	next := l.Ranges[:l.Needed]
	last := min(index+min(s.batches, max(1, maxPrefetched/len(s.lanes))), len(next)-1)
	bytes := int64(0)
	for i := max(l.reached, index) + 1; i <= last; i++ {
		if bytes += (next[i].To - next[i].From) * s.training.rowBytes; i > index+1 && bytes > maxPrefetchedBytes {
			return
		}
		l.reached = i
		l.prefetchBuildSides(i)
		l.prefetchTraining(i, next[i], nil)
	}
}

// prefetchBuildSides starts to build what an upcoming range needs. The build sides are
// kept until the range is opened, unless the memory is needed more urgently: then they are
// read again.
func (l *Lane) prefetchBuildSides(index int) {
	s := l.stream
	at, others, ranges := l.Ranges[index], int64(0), 0
	for _, each := range s.lanes {
		ranges += len(each.built)
		for _, built := range each.built {
			others += built.bytes()
		}
	}
	if ranges >= maxPrefetched {
		return
	}
	var built laneReferences
	for i, in := range s.staging {
		if !in.groups.ShouldPrefetch(at, others) {
			continue
		}
		if built == nil {
			built = make(laneReferences, len(s.staging))
		}
		built[i] = in.groups.ReferenceAhead(at)
		built[i].Prefetch(s.ctx)
		others += built[i].Bytes()
	}
	if built != nil {
		l.built[index] = built
	}
}

// prefetchTraining starts to read training rows of an upcoming range, given its index in the lane.
func (l *Lane) prefetchTraining(index int, at plan.Range, shared plan.SharedRead) {
	s := l.stream
	if s.training.whole || l.reading[at] != nil {
		return
	}
	rows, err := s.training.scan(s.ctx, l.source(index, at, shared), s.Layout.read)
	if err != nil {
		return // opening the range returns the same error
	}
	rows.Begin()
	l.reading[at] = rows
}

// prefetched returns training rows of a range, given its index in the lane, that are already being read, or opens them. It
// releases those that were to be read from another row on.
func (l *Lane) prefetched(ctx context.Context, index int, at plan.Range, shared plan.SharedRead) (SourceRows, error) {
	if rows, found := l.reading[at]; found {
		delete(l.reading, at)
		return rows, nil
	}
	for other, rows := range l.reading {
		if other.Split == at.Split && other.To == at.To {
			delete(l.reading, other)
			rows.Release()
		}
	}
	return l.stream.training.scan(ctx, l.source(index, at, shared), l.stream.Layout.read)
}

// probeable returns the build side of a reference. If memory is exhausted, it releases
// what was prefetched, and tries again.
func (s *Ranges) probeable(ctx context.Context, r *buildside.Reference) (joiner.Probeable, error) {
	made, err := r.Probeable(ctx)
	if fault.KindOf(err) == fault.Exhausted && s.ReleasePrefetched() {
		return r.Probeable(ctx)
	}
	return made, err
}

// ReleasePrefetched releases what was prefetched for upcoming ranges, and waits for the
// builds of open ranges to end: rows that are needed now take precedence. It reports
// whether there was anything to release or to wait for.
func (s *Ranges) ReleasePrefetched() bool {
	some := s.releasePrefetched()
	for _, l := range s.lanes {
		for _, r := range l.pinned() {
			some = r.WaitPrefetch() || some
		}
	}
	return some
}

// releasePrefetched releases what was prefetched for upcoming ranges, and reports
// whether there was anything to release.
func (s *Ranges) releasePrefetched() bool {
	some := false
	for _, l := range s.lanes {
		some = some || len(l.built)+len(l.reading) > 0
		for index, built := range l.built {
			delete(l.built, index)
			built.release()
		}
		for at, rows := range l.reading {
			delete(l.reading, at)
			rows.Release()
		}
	}
	return some
}
