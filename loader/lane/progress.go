package lane

import "slices"

// Progress is what a Reader has returned and skipped, up to the batch last returned.
type Progress struct {
	At       []Position // of the lanes, in the order of Options.Lanes
	Consumed []int64    // rows, or requests, that each lane has contributed or skipped
	Steps    int64      // returned or skipped
	Batches  int64
	Rows     int64 // in the batches
	Counted  int64 // the same, or requests if lanes contribute these
	Skipped  int64 // rows of the steps that were skipped since other readers return them
	// PerLane is the number of rows, or requests, that each lane has contributed or skipped; lanes
	// that have ended do not count. After a step that Limit cut short it is the maximum of all lanes,
	// and Uneven reports that another lane may have contributed less.
	PerLane  int64
	Uneven   bool
	Distinct []int64 // by Options.Indexed: staging rows in the batches
}

// Progress returns the reader's progress.
func (r *Reader) Progress() Progress {
	p := r.passed
	if r.pending != nil {
		p.At, p.Consumed = slices.Clone(r.pending.before.At), slices.Clone(r.pending.before.Consumed)
	} else {
		p.At, p.Consumed = make([]Position, len(r.lanes)), make([]int64, len(r.lanes))
		for i, l := range r.lanes {
			p.At[i], p.Consumed[i] = l.at, l.consumed
		}
	}
	p.Distinct = make([]int64, len(r.cutter.distinct))
	for i := range r.cutter.distinct {
		p.Distinct[i] = r.cutter.distinct[i].sent
	}
	return p
}

// After returns the progress of an earlier reader and of this one, which continued it.
func (p Progress) After(earlier Progress) Progress {
	return Progress{
		At: p.At, Consumed: sums(p.Consumed, earlier.Consumed), Distinct: sums(p.Distinct, earlier.Distinct),
		Steps: p.Steps + earlier.Steps, Batches: p.Batches + earlier.Batches, Rows: p.Rows + earlier.Rows,
		Counted: p.Counted + earlier.Counted, Skipped: p.Skipped + earlier.Skipped,
		PerLane: p.PerLane + earlier.PerLane, Uneven: p.Uneven || earlier.Uneven,
	}
}

// sums adds earlier values, of which there may be none, to values.
func sums(values, earlier []int64) []int64 {
	for i, v := range earlier {
		values[i] += v
	}
	return values
}
