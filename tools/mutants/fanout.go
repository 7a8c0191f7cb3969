package main

// fanoutMutants are ways in which streams that share batches get rows, counts or failures of
// others, or hold memory that streams need.
func fanoutMutants() []mutant {
	fanout, all := []string{"-timeout", "60s", "./loader/fanout"}, []string{"-run", "TestSharedStreamsGiveTheSame", "./loader"}
	const group, membership, step, member, steps = "loader/fanout/group.go", "loader/fanout/membership.go", "loader/fanout/step.go", "loader/fanout/member.go", "loader/stream/step.go"
	return []mutant{
		{"groups-mix-readings", "loader/fanout/key.go", "Reading: mayDiffer(p.Query.Reading), ", "", fanout},
		{"groups-mix-parts", "loader/fanout/key.go", "Part: o.Part, ", "", fanout},
		{"groups-mix-files", "loader/fanout/key.go", "Files: p.FilesID, ", "", fanout},
		{"places-are-compared-by-step", steps, "p.step == o.step && p.perLane == o.perLane && p.uneven == o.uneven && slices.Equal(p.at, o.at)", "p.step == o.step && (slices.Equal(p.at, o.at) || p.perLane == p.perLane)", fanout},
		{"forms-are-not-compared", membership, "(!g.formed || !g.form.Equal(form))", "(!g.formed || !g.form.Equal(form) && g.age < 0)", fanout},
		{"groups-end-with-the-first-reader", membership, "context.WithCancel(context.WithoutCancel(m.ctx))", "context.WithCancel(m.ctx)", fanout},
		{"groups-never-end", membership, "	if g := m.group; g != nil && g.abandoned() {\n", "	if g := m.group; g != nil && len(g.members) == 0 {\n", fanout},
		{"waiting-does-not-end", step, "	case <-m.ctx.Done():\n	}\n	s.mu.Lock()\n", "	}\n	s.mu.Lock()\n", fanout},
		{"failures-are-of-all-members", step, "		reader.Release()\n		reader = nil\n	}\n", "	}\n", fanout},
		{"steps-of-no-member-are-cut", step, "skip = skip && !m.own.TakesAt(step)", "skip = false", fanout},
		{"skipped-steps-are-handed", membership, "g.window[i].Batch == nil && m.own.TakesAt(at.Step())", "g.window[i].Batch == nil && m.own.TakesAt(at.Step()-1)", fanout},
		{"windows-have-no-bound", step, "	for s.bytes > s.options.Window {\n", "	for s.bytes > s.options.Window+1<<40 {\n", fanout},
		{"a-full-window-stays-with-its-group", step, "s.largest().drop(1, dropped)", "g.drop(1, dropped)", fanout},
		{"one-member-gathers-all", step, "g.bytes <= s.options.Window/gatherDivisor", "g.bytes <= s.options.Window", fanout},
		{"encodings-are-of-any-batch", "flight/encodings.go", "	one := e.all[b]\n	if one == nil {\n		one = &batchEncoding{}\n		e.all[b] = one\n	}\n	one.leases++\n", "	one := e.all[nil]\n	if one == nil {\n		one = &batchEncoding{}\n		e.all[nil] = one\n	}\n	e.all[b] = one\n	one.leases++\n", []string{"./flight"}},
		{"shared-messages-of-other-schemas-pass", "flight/frames.go", "!schema.Equal(f.schema)", "!schema.Equal(f.schema) && len(f.made) < 0", []string{"-run", "TestSharedBatchOfAnotherSchemaFails", "./flight"}},
		{"windows-are-kept-under-pressure", "loader/fanout/fanout.go", "	o.Budget.OnLack(s.giveUp)\n", "", fanout},
		{"windows-grow-when-memory-is-short", step, "!g.gathers || !s.options.Budget.Plentiful()", "!g.gathers", fanout},
		{"one-member-keeps-a-window", step, "	if len(g.members) == 1 && !g.gathers ||", "	if len(g.members) == 0 ||", fanout},
		{"groups-at-one-place-stay-apart", step, "if other := s.find(m, g); other != nil {", "if other := s.find(m, g); other != nil && other.age < 0 {", fanout},
		{"limits-are-passed", member, "left != lane.Unknown && left <= int64(m.planned.BatchRows)", "left != lane.Unknown && left < 0", all},
		{"counts-are-of-joined-batches", "loader/joined/steps.go", "	return o.joined.CountsBefore(int(row - start)), row - from\n", "	return o.joined.Counts(), row - from\n", all},
		{"counts-leave-nulls-out", "joiner/countsbefore.go", "				counts.NullKeys++\n", "", all},
		{"counts-leave-duplicates-out", "joiner/countsbefore.go", "				counts.Duplicates++\n", "", all},
		{"shared-bytes-count-as-read", "loader/buildside/costs.go", "	if !own {\n", "	if !own && more.Read < 0 {\n", fanout},
		{"min-match-is-of-the-group", steps, "		j.all.Subtract(before.counts[j.table])\n", "", fanout},
		{"shared-batches-count-twice", "flight/inflight.go", "		more = 0 // another client gets the same batch\n", "", []string{"-run", "TestInflightBatches", "./flight"}},
		{"shared-batches-leave-with-one", "flight/inflight.go", "b.leases > 0 && b.cut == b.leases", "b.leases > 0 && b.cut > 0", []string{"-run", "TestInflightBatches", "./flight"}},
	}
}
