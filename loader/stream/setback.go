package stream

// setback is the state of a stream before a step, to which SetBack returns.
type setback struct {
	mark
	fresh bool // the reader had returned nothing
}

// beforeStep returns the state before the next step. Without a budget, no step fails for lack of
// memory, and the steps of a group's reader belong to its members.
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

// SetBack undoes a Begin or Next that has failed: it releases everything that the stream holds
// except its position, and the following Next reads the same step. It reports whether it did. The
// caller checks that the failure may go away.
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

// restore sets the counts of sequences that are closed to those before a step.
func (s *sequences) restore(at setback) {
	clear(s.permuted)
	s.divided = at.divided
	s.joined.Restore(at.counts, at.fresh)
}
