package lane

import "slices"

// Progress counts what a Reader has returned and skipped, up to the batch that was returned last.
type Progress struct {
	At       []Position // the position of each lane, in the order of Options.Lanes
	Consumed []int64    // rows, or requests, that each lane has contributed or skipped
	Steps    int64      // steps that were returned or skipped
	Batches  int64
	Rows     int64 // rows in the returned batches
	Counted  int64 // requests in the returned batches if lanes contribute requests; otherwise equal to Rows
	Skipped  int64 // rows of steps that were skipped because other readers return them
	// PerLane is the number of rows, or requests, that each lane has contributed or skipped; lanes
	// that have ended are ignored. After a step that Limit cut short, PerLane is the maximum over
	// all lanes, and Uneven reports that other lanes may have contributed less.
	PerLane  int64
	Uneven   bool
	Distinct []int64 // for each of Options.Indexed: the number of staging rows in the returned batches
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

// After returns the progress of two readers together: of an earlier reader, and of a reader that
// continued at its position and has progress p.
func (p Progress) After(earlier Progress) Progress {
	return Progress{
		At: p.At, Consumed: sums(p.Consumed, earlier.Consumed), Distinct: sums(p.Distinct, earlier.Distinct),
		Steps: p.Steps + earlier.Steps, Batches: p.Batches + earlier.Batches, Rows: p.Rows + earlier.Rows,
		Counted: p.Counted + earlier.Counted, Skipped: p.Skipped + earlier.Skipped,
		PerLane: p.PerLane + earlier.PerLane, Uneven: p.Uneven || earlier.Uneven,
	}
}

// sums adds earlier values to values. earlier may be empty.
func sums(values, earlier []int64) []int64 {
	for i, v := range earlier {
		values[i] += v
	}
	return values
}
