package main

// boundMutants break what bounds clients: what batches are charged, what is on its
// way, what is parked.
func boundMutants() []mutant {
	loader, lane, flight := []string{"./loader"}, []string{"./loader/lane"}, []string{"./flight"}
	return []mutant{
		{"batches-are-free", "loader/lane/cut.go", "		return fewerRows(held.GrowWait(r.ctx, bytes))\n", "		return nil\n", lane},
		{"shared-columns-are-free", "loader/lane/cut.go", "	bytes := sharedBytes(made)\n", "	bytes := int64(0)\n", lane},
		{"batches-have-no-limit", "loader/lane/cut.go", "limit > 0 && held.Held()+bytes > limit", "limit < 0 && held.Held()+bytes > limit", lane},
		{"nested-items-are-not-sized", "internal/batch/gathersize.go", "	bytes += g.size(elem, inner, items)\n", "", []string{"./internal/batch"}},
		{"charge-ends-with-a-slice", "internal/batch/charged.go", "	c.holders.Add(1)\n", "	c.holders.Store(1)\n", []string{"./internal/batch"}},
		{"parked-rows-count-twice", "loader/joined/counts.go", "\treturn start + o.returned, o.before\n", "\treturn start + o.returned, o.joined.Counts()\n", loader},
		{"parked-rows-are-not-counted", "loader/joined/counts.go", "\tjoiner.AddCounts(s.counts, more)\n", "\t_ = more\n", loader},
		{"parked-streams-take-the-steps-again", "loader/stream/stream.go", "\t\tleft -= s.earlier.steps\n", "\t\tleft += 0\n", loader},
		{"parked-again-at-once", "loader/stream/progress.go", "|| pressed && s.again > 0 {", "{", loader},
		{"transit-is-endless", "flight/inflight.go", "t.limit == 0 || t.bytes == 0", "t.limit >= 0 || t.bytes == 0", flight},
		{"transit-forgets-connections", "flight/inflight.go", "		if p.connection == c {\n", "		if p.connection != c {\n", flight},
		{"passed-rows-are-free", "loader/lane/selection.go", "	return fewerRows(s.held.GrowWait(ctx, bytes))\n", "	return nil\n", lane},
		{"ended-ranges-are-kept", "loader/lane/selection.go", "	for ; s.detached < len(s.runs); s.detached++ {\n", "	for ; s.detached < 0; s.detached++ {\n", lane},
		{"copied-rows-have-no-origin", "loader/lane/indexed.go", "	if x.origins == nil || x.origins[index].dictionary == nil {\n", "	if x.origins == nil || x.origins[index].dictionary != nil {\n", lane},
		{"plans-are-free", "loader/open.go", "	if bytes <= freePlan {\n", "	if bytes >= 0 {\n", loader},
		{"footers-are-free", "loader/scan/open.go", "s.footers.Hold(ctx, footer, footer.Bytes())", "s.footers.Hold(ctx, footer, 0)", []string{"./loader/scan"}},
		{"paid-twice", "internal/budget/once.go", "	s.holders++\n	return s, first\n", "	s.holders++\n	return s, true\n", []string{"./internal/budget"}},
		{"build-sides-leave-nothing", "internal/budget/budget.go", "		if n > 0 && used+n > b.limit-reserve {\n", "		if n > 0 && used+n > b.limit {\n", []string{"./internal/budget"}},
		{"batches-are-lent-too-early", "flight/codec.go", "		l.reserved = c.Reserved()\n", "		l.reserved = c.Reserved()\n		c.MarkInFlight()\n", flight},
		{"steps-are-stalls", "flight/parking.go", "		if still >= stuckAfter {\n", "		if still >= stalledAfter {\n", flight},
		{"kept-places-are-not-found", "flight/admission.go", "		if g != nil && g.kept >= needs {\n			return p\n", "		if g != nil && g.kept > a.limit {\n			return p\n", flight},
		{"siblings-go-first-for-ever", "flight/admission.go", "p.resumes || a.isLate(p) || g != nil && !g.gathered {", "p.resumes || a.isLate(p) || g != nil {", flight},
		{"dictionaries-are-kept", "flight/frames.go", "	if f.indexed {\n", "	if f.indexed && f.made != nil {\n", flight},
		{"tails-pay-for-all", "loader/lane/cut.go", "2*runs[0].rows < runs[0].of", "2*runs[0].rows < int(runs[0].batch.NumRows())", lane},
		{"peers-are-forgotten", "internal/budget/peer.go", "		case p.held.Load() == 0:\n", "		case p.open == 0:\n", []string{"./internal/budget"}},
		{"nobody-exceeds-a-share", "internal/budget/wait.go", "!b.grant() && !b.exceed() && (lent", "!b.grant() && (lent", []string{"./internal/budget"}},
		{"hosts-have-no-share", "flight/admission.go", "		if has+needs > a.share {\n", "		if has > a.limit {\n", flight},
		{"siblings-wait-in-line", "flight/admission.go", "p.resumes || a.isLate(p) || g != nil && !g.gathered {", "p.resumes || a.isLate(p) {", flight},
		{"nothing-is-kept-for-siblings", "flight/admission.go", "		g.kept = needs * min(key.of-1, max(0, a.most()-a.taken-a.kept+1)/2/needs)\n", "		g.kept = 0\n", flight},
		{"kept-places-never-lapse", "flight/admission.go", "	a.kept -= g.kept\n	g.kept, g.gathered", "	g.kept, g.gathered", flight},
		{"parked-streams-keep-their-places", "flight/parking.go", "				one.slot.Release()\n", "", flight},
		{"parked-streams-need-no-place", "flight/setback.go", "		if err := p.enter(ctx); err != nil {\n", "		if err := ctx.Err(); err != nil {\n", flight},
		{"nobody-makes-room", "flight/parking.go", "		if s.admission.wanted(one.slot) {\n", "		if !s.admission.wanted(one.slot) {\n", flight},
		{"the-queue-has-no-end", "flight/admission.go", "	if !p.resumes && a.queueFull(p) {\n", "	if p.resumes && a.queueFull(p) {\n", flight},
		{"peers-take-all-memory", "internal/budget/peer.go", "	return held == 0 || held+n <= b.share\n", "	return held >= 0\n", []string{"./internal/budget"}},
		{"peers-wait-for-themselves", "internal/budget/wait.go", " || p.blocked == p.open && !b.shares(w.into.peer, w.bytes) {", " && p != nil {", []string{"./internal/budget"}},
		{"lent-memory-is-lost", "internal/budget/wait.go", "(lent != 0 || !b.fail())", "(lent < 0 || !b.fail())", []string{"./internal/budget"}},
		{"unsent-frames-are-kept", "flight/codec.go", "		f.body.Free()\n", "", flight},
	}
}
