package loader

import (
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
)

// hold acquires the file groups that a lane's range needs before it releases those of
// the lane's last range, so that a group that both need stays loaded. It uses what was
// built ahead for the range.
func (s *ranges) hold(of turn, at plan.Range) {
	last := s.references[of.lane]
	held := s.built[of]
	if held == nil {
		held = make([]*buildside.Reference, len(s.staging))
	}
	delete(s.built, of)
	for i, in := range s.staging {
		in.groups.Begun(at)
		if held[i] == nil {
			held[i] = in.groups.Reference(at)
		}
		held[i].Begin()
	}
	s.references[of.lane] = held
	releaseAll(last)
}

// releaseAll releases references, any of which may be nil.
func releaseAll(references []*buildside.Reference) {
	for _, r := range references {
		if r != nil {
			r.Release()
		}
	}
}

// close releases every group, and waits for builds in progress.
func (s *ranges) close() {
	s.releaseAhead()
	for number, references := range s.references {
		releaseAll(references)
		delete(s.references, number)
	}
	for _, in := range s.staging {
		in.groups.Close()
	}
}
