package main

// boundMutants break what bounds clients: what batches are charged, what is on its
// way, what is parked.
func boundMutants() []mutant {
	loader, lane, flight := []string{"./loader"}, []string{"./loader/lane"}, []string{"./flight"}
	return []mutant{
		{"batches-are-free", "loader/lane/cut.go", "		return held.GrowWait(r.ctx, bytes)\n", "		return nil\n", lane},
		{"shared-columns-are-free", "loader/lane/cut.go", "	bytes := sharedBytes(made)\n", "	bytes := int64(0)\n", lane},
		{"batches-have-no-limit", "loader/lane/cut.go", "limit > 0 && held.Held()+bytes > limit", "limit < 0 && held.Held()+bytes > limit", lane},
		{"nested-items-are-not-sized", "internal/batch/gathersize.go", "	bytes += g.size(elem, inner, items)\n", "", []string{"./internal/batch"}},
		{"charge-ends-with-a-slice", "internal/batch/charged.go", "	c.holders.Add(1)\n", "	c.holders.Store(1)\n", []string{"./internal/batch"}},
		{"parked-rows-count-twice", "loader/park.go", "	return start + o.given, o.before\n", "	return start + o.given, o.joined.Counts()\n", loader},
		{"parked-rows-are-not-counted", "loader/park.go", "			s.counts[k].Add(c)\n", "			_, _ = k, c\n", loader},
		{"parked-streams-take-the-steps-again", "loader/stream.go", "		left -= s.steps\n", "		left += 0\n", loader},
		{"parked-again-at-once", "loader/stream.go", "|| pressed && s.again > 0 {", "{", loader},
		{"transit-is-endless", "flight/transit.go", "t.limit == 0 || t.bytes == 0", "t.limit >= 0 || t.bytes == 0", flight},
		{"transit-forgets-connections", "flight/transit.go", "		if p.connection == c {\n", "		if p.connection != c {\n", flight},
		{"unsent-frames-are-kept", "flight/codec.go", "		f.body.Free()\n", "", flight},
	}
}
