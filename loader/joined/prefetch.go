package joined

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

const (
	// maxPrefetched is the maximum number of ranges that a stream prefetches. It takes two
	// consecutive round trips to storage to read the first row of a range, and small ranges are
	// joined in less time than that.
	maxPrefetched = 4
	// maxPrefetchedBytes is the maximum expected size in memory of the training columns of the
	// ranges that a lane prefetches. A lane's next range is prefetched even if it is larger.
	maxPrefetchedBytes = 256 << 20
	// prefetchRows is about how many rows a stream of several lanes returns between the start of
	// reading a lane's next range and the first use of that range. That takes longer than the round
	// trips to storage. An earlier start would hold the memory longer, and in each lane.
	prefetchRows = 1 << 18
)

// prefetchAfter prefetches ranges of the lane after the given range: it starts to read their
// training rows and to build their build sides in spare memory, so that the lane does not wait for
// storage when it opens them. The number of prefetched ranges grows with the number of batches
// joined so far, so that short reads waste little. left is the number of rows that the given range
// still has, or 0 if that is unknown.
func (l *Lane) prefetchAfter(index int, left int64) {
	s := l.stream
	if len(s.lanes) > 1 && left > prefetchRows/int64(len(s.lanes)) {
		return
	}
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

// prefetchBuildSides starts to build the build sides that an upcoming range needs. They are kept
// until the range is opened. If their memory is needed more urgently before that, they are
// released, and read again when the range is opened.
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

// prefetched returns training rows of a range, given the range's index in the lane. If the rows
// were prefetched, it returns the prefetched rows. Otherwise it opens them, and releases prefetched
// rows of the same range that begin at another row.
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

// ReleasePrefetched makes memory available for rows that are needed now. It releases everything
// that was prefetched for upcoming ranges, and waits until the running builds for open ranges have
// ended. It reports whether there was anything to release or to wait for.
func (s *Ranges) ReleasePrefetched() bool {
	some := s.releasePrefetched()
	for _, l := range s.lanes {
		for _, r := range l.pinned() {
			some = r.WaitPrefetch() || some
		}
	}
	return some
}

// releasePrefetched releases everything that was prefetched for upcoming ranges, and reports
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
