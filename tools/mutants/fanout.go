package main

// fanoutMutants are ways in which streams that share batches get rows, counts or failures of
// others, or hold memory that streams need.
func fanoutMutants() []mutant {
	fanout, all := []string{"-timeout", "60s", "./loader/fanout"}, []string{"-run", "TestSharedStreamsGiveTheSame", "./loader"}
	const group, membership, step, member, block = "loader/fanout/group.go", "loader/fanout/membership.go", "loader/fanout/step.go", "loader/fanout/member.go", "loader/fanout/block.go"
	const spec, steps, take, view = "loader/fanout/spec.go", "loader/stream/step.go", "loader/stream/take.go", "loader/lane/view.go"
	return []mutant{
		{"groups-mix-readings", "loader/fanout/key.go", ", Reading: mayDiffer(p.Query.Reading)}", "}", fanout},
		{"groups-mix-parts", "loader/fanout/key.go", "Part: o.Part, ", "", fanout},
		{"groups-mix-tables", "loader/fanout/key.go", "Tables: p.TablesID, ", "", fanout},
		{"places-are-compared-by-step", steps, "p.perLane == o.perLane && p.uneven == o.uneven && slices.Equal(p.at, o.at)", "p.uneven == o.uneven && (slices.Equal(p.at, o.at) || p.step == o.step)", fanout},
		{"forms-are-not-compared", membership, "return g.formed && g.form.Agrees(m.form)", "return g.formed && (g.form.Agrees(m.form) || g.age > 0)", fanout},
		{"groups-end-with-the-first-reader", membership, "context.WithCancel(context.WithoutCancel(m.ctx))", "context.WithCancel(m.ctx)", fanout},
		{"groups-never-end", membership, "	if g := m.group; g != nil && g.abandoned() {\n", "	if g := m.group; g != nil && len(g.members) == 0 {\n", fanout},
		{"waiting-does-not-end", step, "	case <-m.ctx.Done():\n	}\n	s.mu.Lock()\n", "	}\n	s.mu.Lock()\n", fanout},
		{"failures-are-of-all-members", step, "	if err != nil {\n		now.close()\n	}\n", "", fanout},
		{"steps-of-no-member-are-cut", step, "!m.own.TakesAt(m.place().Step()+steps)", "steps < 0", fanout},
		{"skipped-steps-are-handed", block, "!m.own.TakesAt(m.place().Step())", "!m.own.TakesAt(m.place().Step()-1)", fanout},
		{"windows-have-no-bound", step, "	for s.bytes > s.options.Window {\n", "	for s.bytes > s.options.Window+1<<40 {\n", fanout},
		{"a-full-window-stays-with-its-group", step, "s.largest().drop(1, dropped)", "g.drop(1, dropped)", fanout},
		{"one-member-gathers-all", step, "min(s.options.Window/gatherDivisor, ", "min(s.options.Window, ", fanout},
		{"fast-streams-gather-as-much-as-slow-ones", step, "min(s.options.Window/gatherDivisor, fastGathered+int64(took.Seconds()*gatherRate))", "s.options.Window/gatherDivisor + int64(0*took.Seconds())", fanout},
		{"streams-gather-for-the-time-of-each-step", step, "	if g.began.IsZero() {\n", "	if g.began.IsZero() || g.gathers {\n", fanout},
		{"slow-streams-gather-as-little-as-fast-ones", step, "fastGathered+int64(took.Seconds()*gatherRate)", "fastGathered+int64(0*took.Seconds())", fanout},
		{"encodings-are-of-any-batch", "flight/encodings.go", "	one := e.all[b]\n	if one == nil {\n		one = &batchEncoding{}\n		e.all[b] = one\n	}\n	one.leases++\n", "	one := e.all[nil]\n	if one == nil {\n		one = &batchEncoding{}\n		e.all[nil] = one\n	}\n	e.all[b] = one\n	one.leases++\n", []string{"./flight"}},
		{"shared-messages-of-other-schemas-pass", "flight/frames.go", "!schema.Equal(f.schema)", "!schema.Equal(f.schema) && len(f.made) < 0", []string{"-run", "TestSharedBatchOfAnotherSchemaFails", "./flight"}},
		{"windows-are-kept-under-pressure", "loader/fanout/fanout.go", "	o.Budget.OnLack(s.giveUp)\n", "", fanout},
		{"windows-grow-when-memory-is-short", step, "g.keepsNone() || !s.options.Budget.Plentiful()", "g.keepsNone()", fanout},
		{"one-member-keeps-a-window", group, "len(g.members) == 1 && !g.gathers", "len(g.members) == 0", fanout},
		{"groups-at-one-place-stay-apart", step, "if other := s.better(m); other != nil {", "if other := s.better(m); other != nil && other.age < 0 {", fanout},
		{"limits-are-passed", member, "left != lane.Unknown && left <= int64(m.planned.BatchRows)", "left != lane.Unknown && left < 0", all},
		{"counts-are-of-joined-batches", "loader/joined/steps.go", "	return o.joined.CountsBefore(int(row - start)), row - from\n", "	return o.joined.Counts(), row - from\n", all},
		{"counts-leave-nulls-out", "joiner/probe.go", "				counts.NullKeys++\n", "", all},
		{"counts-leave-duplicates-out", "joiner/probe.go", "				counts.Duplicates++\n", "", all},
		{"shared-bytes-count-as-read", "loader/buildside/costs.go", "	if !own {\n", "	if !own && more.Read < 0 {\n", fanout},
		{"min-match-is-of-the-group", take, "		rise.Subtract(of.marks[of.from].counts[j.table])\n", "", fanout},
		{"min-match-is-checked-in-other-slices", take, " || j.marks < of.from || j.marks >= of.to {", " || j.marks < of.from-1 && j.marks >= of.to {", fanout},
		{"slices-count-rows-before-them", steps, "	rise.Subtract(p.marks[p.from].counts[table])\n", "", fanout},
		{"slices-begin-anywhere", steps, "return m.place.SameRows(at) })", "return m.rows >= 0 })", fanout},
		{"views-have-defaults-of-columns-of-others", "loader/joined/steps.go", "		if !in.spec.HasDefaults() {\n", "		if !in.spec.HasDefaults() && own {\n", fanout},
		{"views-refer-to-rows-of-others", view, "	if consecutive(rows) {\n", "	if len(rows) > 0 {\n", fanout},
		{"views-mix-columns", block, "viewKey{columns: m.spec.columns.id}", "viewKey{}", fanout},
		{"streams-fail-by-columns-of-others", step, "return g.failed && !g.spec.equal(m.spec)", "return g.failed && len(g.members) < 0", fanout},
		{"groups-read-on-what-nobody-takes", group, "g.unneeded < unneededSteps", "g.unneeded >= 0", fanout},
		{"groups-do-not-read-for-those-who-come", group, "need.with(m.spec); ok {", "need.with(m.spec); ok && need.perLane < 0 {", fanout},
		{"slices-may-be-tiny", spec, " && b.perLane/o.perLane <= maxSlices", "", fanout},
		{"sizes-differ-where-a-tail-is-dropped", "loader/fanout/key.go", " && !p.Query.Tail.Drops()", "", fanout},
		{"marks-are-before-an-end-not-seen", "loader/lane/lane_reader.go", "	if err := l.lookAhead(ctx, s); err != nil {\n		return err\n	}\n	if l.mayHaveMore() {", "	if l.mayHaveMore() {", fanout},
		{"views-keep-no-memory", "internal/batch/charged.go", "	c.charge.holders.Add(1)\n	over :=", "	over :=", []string{"./internal/batch"}},
		{"shared-batches-count-twice", "flight/inflight.go", "		if t.memory[one.ID] == nil {\n			more += one.Bytes\n		}\n", "		more += one.Bytes\n", []string{"-run", "TestInflightBatches", "./flight"}},
		{"shared-batches-leave-with-one", "flight/inflight.go", "m.leases > 0 && m.cut == m.leases", "m.leases > 0 && m.cut > 0", []string{"-run", "TestInflightBatches", "./flight"}},
	}
}
