package loader

import (
	"slices"

	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

// hold takes the file groups that a range needs for a lane, before it gives up
// those of the lane's last range: a group that both need stays as it is.
func (s *ranges) hold(number int, at plan.Range) {
	last := s.references[number]
	s.references[number] = nil
	for _, in := range s.staging {
		in.groups.Begun(at)
		s.references[number] = append(s.references[number], s.reference(number, in, at))
	}
	release(last)
	if number == s.aheadOf {
		s.releaseAhead()
	}
}

// reference takes what was built ahead for a range, or else refers to its group
// anew.
func (s *ranges) reference(number int, in *stagingInput, at plan.Range) *buildside.Reference {
	if number == s.aheadOf {
		for i, r := range s.ahead {
			if r.Is(in.groups, at) {
				s.ahead = slices.Delete(s.ahead, i, i+1)
				return r
			}
		}
	}
	return in.groups.Reference(at)
}

// buildAhead begins to build what a lane's next range needs, so that the stream
// does not stop while staging rows are read. One range is built ahead at a time,
// of all lanes, and stays until its lane opens it: nothing is read in vain.
func (s *ranges) buildAhead(number, index int) {
	next := s.plan.Lanes[number].Ranges[:s.ends[number]]
	if index >= len(next) || len(s.ahead) > 0 {
		return
	}
	s.aheadOf = number
	for _, in := range s.staging {
		if in.groups.Ahead(next[index]) {
			r := in.groups.Reference(next[index])
			r.BuildAhead(s.ctx)
			s.ahead = append(s.ahead, r)
		}
	}
}

// coming is the training rows of a range whose turn has not come.
type coming struct {
	at   plan.Range
	rows Rows
}

// readAhead lets the training rows of a lane's next range begin to be read, out of
// memory to spare, so that the lane does not wait for storage when it opens the range.
func (s *ranges) readAhead(number, index int) {
	next := s.plan.Lanes[number].Ranges[:s.ends[number]]
	if _, reads := s.coming[number]; reads || index >= len(next) || s.plan.Relation.Distinct != nil {
		return
	}
	at := s.readOf(next[index], next[index].From)
	rows, err := s.options.scan(s.ctx, s.trainingSource(at), s.read)
	if err != nil {
		return // as it will when the range is opened
	}
	readAhead(rows)
	s.coming[number] = coming{at: at, rows: rows}
}

// giveWay ends what is built ahead for a range to come, waits for what still is
// for open ones, and says whether there was something: what a row asks for
// comes first.
func (s *ranges) giveWay() bool {
	some := s.releaseAhead()
	some = s.releaseComing() || some
	for _, open := range s.references {
		for _, r := range open {
			some = r.Settle() || some
		}
	}
	return some
}

// releaseAhead gives up what is built ahead, and says whether there was
// something.
func (s *ranges) releaseAhead() bool {
	ahead := s.ahead
	s.ahead = nil
	release(ahead)
	return len(ahead) > 0
}

// releaseComing gives up the training rows that are being read ahead, and says whether
// there were some.
func (s *ranges) releaseComing() bool {
	some := len(s.coming) > 0
	for number, next := range s.coming {
		next.rows.Release()
		delete(s.coming, number)
	}
	return some
}

func release(references []*buildside.Reference) {
	for _, r := range references {
		r.Release()
	}
}

// close gives up every group, and waits for those that are being built.
func (s *ranges) close() {
	s.releaseAhead()
	s.releaseComing()
	for number, references := range s.references {
		release(references)
		delete(s.references, number)
	}
	for _, in := range s.staging {
		in.groups.Close()
	}
}
