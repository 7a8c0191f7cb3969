package stream

import (
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
)

// progress returns the stream's progress up to the batch that was returned last.
func (s *ShardReader) progress() lane.Progress {
	if s.reader == nil {
		return s.earlier
	}
	return s.reader.Progress().After(s.earlier)
}

// Cursor returns the stream's position after the batch that was returned last.
func (s *ShardReader) Cursor() dataset.Cursor { return s.shard.cursor(s.progress()) }

// Park releases everything that the stream holds except its position. This includes the batch that
// was returned last, unless the caller has retained it. The following Next resumes with the next
// row. Park reports whether the stream was parked. A stream that holds nothing, or that has failed,
// is not parked. Parking under memory pressure (pressed) is refused while the stream has returned
// fewer rows since it resumed than it had to read again.
func (s *ShardReader) Park(pressed bool) bool {
	if s.reader == nil || s.Err() != nil || pressed && s.again > 0 {
		return false
	}
	s.earlier = s.progress()
	if s.again = s.reader.Weighed(); s.again > 0 {
		s.sequences.discardAll()
	} else if s.shard.rowsLeft(s.earlier) != 0 { // if the limit is reached, no row is read again, and the counts stay
		s.again = s.sequences.rewind(s.shard.lanes, s.earlier.At)
	}
	s.reader.Release()
	s.reader = nil
	return true
}
