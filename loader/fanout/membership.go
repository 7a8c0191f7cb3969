package fanout

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
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
		sharer: s, key: m.key, age: s.begun,
		stepWindow: stepWindow{tail: m.at, gathers: !m.begun || m.why == Behind}, reading: reading{planned: m.planned}, spec: groupSpec{batchSpec: m.spec},
		members: map[*groupMember]struct{}{}, coming: map[*groupMember]struct{}{}, waiting: map[*groupMember]struct{}{},
	}
	use := g.planned.Query.Cache // as the member that begins the group uses the cache
	g.planned.Query.Reading = mayDiffer(g.planned.Query.Reading)
	g.planned.Query.Cache = use
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(m.ctx))
	g.ctx = trace.Apart(waits.With(g.ctx, waits.Of(m.ctx).Shared()))
	g.form = m.form
	g.decides, g.origin, g.first = !g.form.Decided(), g.tail, m.spec
	s.groups[m.key] = append(s.groups[m.key], g)
	return g
}

// find returns the group that a member should join. Among the groups that serve the member's
// position, this is the group that is furthest ahead, and the oldest of several such groups. find
// returns nil if no group serves the position, or if none is better than the member's own group
// (in). s.mu is held.
func (s *Sharer) find(m *groupMember, in *readerGroup) *readerGroup {
	var best *readerGroup
	for _, g := range s.groups[m.key] {
		if g == in || !g.admits(m) || !g.serves(m) {
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

// better returns a group that a member should join instead of its own group. It returns nil if
// there is no such group, or if the member stays apart. s.mu is held.
func (s *Sharer) better(m *groupMember) *readerGroup {
	if m.apart.steps > 0 {
		return nil
	}
	return s.find(m, m.group)
}

// before reports whether the group g is ahead of the group o, or at the same place and older.
func (g *readerGroup) before(o *readerGroup) bool {
	if mine, its := g.front().PerLane(), o.front().PerLane(); mine != its {
		return mine > its
	}
	return g.age < o.age
}

// agrees reports whether the form of the group's batches agrees with the form of the member's
// batches. If the member's form is not decided yet, it depends on the member's first batch. Then
// the forms agree if the same batch decides the group's form.
func (g *readerGroup) agrees(m *groupMember) bool {
	if !m.form.Decided() {
		return g.decides && g.origin.SameRows(m.at) && g.first.equal(m.spec)
	}
	return g.form.Decided() && g.form.Agrees(m.form)
}

// approach lets a member that is alone in its group approach another group, whose last steps lack
// columns or rows that the member needs. The other group reads its next steps for this member too,
// and keeps them until the member has read the steps before them. s.mu is held.
func (s *Sharer) approach(m *groupMember) {
	if m.apart.steps > 0 {
		return
	}
	if m.comes != nil {
		if m.comes.awaits(m) {
			return
		}
		s.stray(m)
	}
	var best *readerGroup
	for _, g := range s.groups[m.key] {
		if g == m.group || g.end != nil || !g.awaits(m) {
			continue
		}
		if i, _ := g.find(m.at); i < len(g.window) && (best == nil || g.before(best)) {
			best = g
		}
	}
	if best != nil {
		m.comes = best
		best.coming[m] = struct{}{}
	}
}

// awaits reports whether a member can approach the group. s.mu is held.
func (g *readerGroup) awaits(m *groupMember) bool {
	_, ok := g.find(m.at)
	return ok && !g.spec.fixed && g.admits(m) && g.fits(m, true)
}

// stray ends a member's approach to another group. s.mu is held.
func (s *Sharer) stray(m *groupMember) {
	if m.comes != nil {
		delete(m.comes.coming, m)
		m.comes = nil
	}
}

// join adds a member to a group. The member must not be in a group. s.mu is held.
func (s *Sharer) join(m *groupMember, g *readerGroup) {
	s.stray(m)
	m.group, m.why = g, ""
	g.members[m], g.spec.needs = struct{}{}, nil
	if g.form.Decided() {
		g.form = g.form.With(m.form) // the form must cover the columns of all members
	}
	s.members++
	m.leaves = context.AfterFunc(m.ctx, func() { s.gone(m) })
}

// leave removes a member from its group, if it is in a group. s.mu is held.
func (s *Sharer) leave(m *groupMember, to *trash) {
	g := m.group
	if g == nil {
		return
	}
	m.leaves()
	s.stray(m)
	m.group = nil
	if m.handed != nil {
		to.taken = append(to.taken, m.handed)
		m.handed = nil
	}
	delete(g.members, m)
	g.spec.needs = nil
	s.members--
	switch {
	case len(g.members) == 0:
		g.close(to)
	case g.abandoned():
		g.retire(to)
	case g.keepsNone():
		g.drop(len(g.window), to)
	}
}

// close ends a group that has no members left. No pull may be running.
func (g *readerGroup) close(to *trash) {
	g.retire(to)
	if g.reader != nil {
		to.readers = append(to.readers, g.reader)
		g.reader = nil
	}
}

// retire ends the group's reading. No members can join the group any more, and it drops its steps.
func (g *readerGroup) retire(to *trash) {
	g.cancel()
	g.drop(len(g.window), to)
	s := g.sharer
	for m := range g.coming {
		s.stray(m)
	}
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

// gone is called when the context of a member ends. If the contexts of all members of the member's
// group have ended, it ends the group's reading.
func (s *Sharer) gone(m *groupMember) {
	var dropped trash
	s.mu.Lock()
	if g := m.group; g != nil && g.abandoned() {
		g.retire(&dropped)
	}
	s.mu.Unlock()
	dropped.release()
}
