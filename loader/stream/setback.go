package stream

// setback is the state of a stream before a step. SetBack restores it.
type setback struct {
	mark
	fresh bool // the reader had not returned anything yet
}

// beforeStep returns the state before the next step. In two cases it returns an empty state, since
// SetBack is not needed: without a budget, no step fails for lack of memory, and the reader of a
// group is replaced after a failure.
func (s *ShardReader) beforeStep() setback {
	switch {
	case s.options.Budget == nil || s.judge != nil:
		return setback{}
	case s.reader == nil:
		return setback{mark{Progress: s.progress(), counts: s.sequences.joined.ClosedCounts(), divided: s.sequences.divided, again: s.again}, true}
	default:
		at := setback{mark: s.mark()}
		at.fresh = at.Steps == s.earlier.Steps
		at.again = max(at.again, s.again)
		return at
	}
}

// SetBack undoes a call of Begin or Next that has failed: it releases everything that the stream
// holds except its position, so that the following Next reads the same step again. It reports
// whether it has undone the call. The caller checks beforehand that the step may succeed if it is
// tried again.
func (s *ShardReader) SetBack() bool {
	if s.Err() == nil || s.back.counts == nil {
		return false
	}
	if s.reader != nil {
		s.reader.Release()
		s.reader = nil
	}
	s.err = nil
	s.earlier, s.again = s.back.Progress, s.back.again
	s.sequences.restore(s.back)
	return true
}

// restore sets the counts of closed sequences to the counts before a step.
func (s *sequences) restore(at setback) {
	clear(s.permuted)
	s.divided = at.divided
	s.joined.Restore(at.counts, at.fresh)
}
