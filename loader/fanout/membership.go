package fanout

import (
	"context"
	"slices"

	"github.com/penstock/penstock/loader/stream"
)

// enter adds a member to a group that serves its position, or to a new one. It returns false if
// there are too many groups. s.mu is held.
func (s *Sharer) enter(m *groupMember) bool {
	g := s.find(m, nil)
	if g == nil {
		if len(s.groups[m.key]) >= maxGroups {
			return false
		}
		g = s.newGroup(m)
	}
	s.join(m, g)
	return true
}

// newGroup begins a group at a member's position. s.mu is held.
func (s *Sharer) newGroup(m *groupMember) *readerGroup {
	s.begun++
	g := &readerGroup{
		sharer: s, key: m.key, age: s.begun, tail: m.place(), gathers: !m.begun,
		members: map[*groupMember]struct{}{}, waiting: map[*groupMember]struct{}{},
	}
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(m.ctx))
	g.form, g.formed = m.own.Form()
	g.decides, g.origin = !g.formed, g.tail
	s.groups[m.key] = append(s.groups[m.key], g)
	return g
}

// find returns the group that a member should join: of those that serve its position, the one
// furthest ahead, and of several the oldest. It returns nil if there is none, or if the member's
// own group (in) is as good. s.mu is held.
func (s *Sharer) find(m *groupMember, in *readerGroup) *readerGroup {
	place := m.place()
	form, formed := m.own.Form()
	var best *readerGroup
	for _, g := range s.groups[m.key] {
		switch {
		case g == in || !g.serves(place):
			continue
		case formed && (!g.formed || !g.form.Equal(form)):
			continue
		case !formed && !g.decidesAt(place):
			continue
		case g.lacks(m, place):
			continue
		}
		if best == nil || g.before(best) {
			best = g
		}
	}
	if best != nil && in != nil && !best.before(in) {
		return nil
	}
	return best
}

// before reports whether a group is ahead of another one, or equal to it and older.
func (g *readerGroup) before(o *readerGroup) bool {
	if mine, its := g.front().Step(), o.front().Step(); mine != its {
		return mine > its
	}
	return g.age < o.age
}

// decidesAt reports whether the group decides, or decided, its form by the rows after a place.
func (g *readerGroup) decidesAt(at stream.StepPlace) bool {
	return g.decides && g.origin.Equal(at)
}

// lacks reports whether the step after a place was skipped, and the member takes it.
func (g *readerGroup) lacks(m *groupMember, at stream.StepPlace) bool {
	i := g.index(at)
	return i < len(g.window) && g.window[i].Batch == nil && m.own.TakesAt(at.Step())
}

// join adds a member, which is in no group. s.mu is held.
func (s *Sharer) join(m *groupMember, g *readerGroup) {
	m.group, m.why = g, ""
	g.members[m] = struct{}{}
	s.members++
	m.leaves = context.AfterFunc(m.ctx, func() { s.gone(m) })
}

// leave removes a member from its group. s.mu is held.
func (s *Sharer) leave(m *groupMember, to *trash) {
	g := m.group
	if g == nil {
		return
	}
	m.leaves()
	m.group = nil
	if m.handed != nil {
		to.batches = append(to.batches, m.handed.Batch)
		m.handed = nil
	}
	delete(g.members, m)
	s.members--
	switch {
	case len(g.members) == 0:
		g.close(to)
	case g.abandoned():
		g.retire(to)
	case len(g.members) == 1 && !g.gathers:
		g.drop(len(g.window), to)
	}
}

// close ends a group without members. No pull is running.
func (g *readerGroup) close(to *trash) {
	g.retire(to)
	if g.reader != nil {
		to.readers = append(to.readers, g.reader)
		g.reader = nil
	}
}

// retire ends the group's reading. Members no longer join it, and it keeps no steps.
func (g *readerGroup) retire(to *trash) {
	g.cancel()
	g.drop(len(g.window), to)
	s := g.sharer
	s.groups[g.key] = slices.DeleteFunc(s.groups[g.key], func(o *readerGroup) bool { return o == g })
	if len(s.groups[g.key]) == 0 {
		delete(s.groups, g.key)
	}
}

// abandoned reports whether the contexts of all members have ended.
func (g *readerGroup) abandoned() bool {
	for m := range g.members {
		if m.ctx.Err() == nil {
			return false
		}
	}
	return true
}

// gone is called when the context of a member ends. It ends the reading of a group when the
// contexts of all its members have ended.
func (s *Sharer) gone(m *groupMember) {
	var dropped trash
	s.mu.Lock()
	if g := m.group; g != nil && g.abandoned() {
		g.retire(&dropped)
	}
	s.mu.Unlock()
	dropped.release()
}
