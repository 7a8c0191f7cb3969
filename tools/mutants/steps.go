package main

// stepMutants are ways to give workers other steps than theirs, to end ranks at other
// steps, and to count other rows than streams give.
func stepMutants() []mutant {
	lane, loader, dataset := []string{"./loader/lane"}, []string{"-run", "Steps|Count|Parked", "./loader"}, []string{"./loader/dataset", "./loader/dataset/decode"}
	flight := []string{"-run", "Count|Ticket", "./flight"}
	shared := []string{"-run", "TestConcurrentCallersShareOneCount|TestNextCallerCountsAfterAFailedCount|TestOnlyExactCountsAreCounted|TestCountsAreCached", "-timeout", "30s", "./loader"} // a mutant may wait forever
	const counts, counted = "loader/count.go", "loader/stream/count.go"
	return []mutant{
		{"workers-take-the-step-after", "loader/lane/every.go", "	return (e.Step - step%e.Of + e.Of) % e.Of\n", "	return (e.Step - (step+1)%e.Of + e.Of) % e.Of\n", lane},
		{"steps-are-counted-from-the-start", "loader/stream/stream.go", "((int64(every.Step)-s.earlier.steps)%of + of) % of", "((int64(every.Step)-s.start.step-s.earlier.steps)%of + of) % of", loader},
		{"parked-workers-begin-anew", "loader/stream/stream.go", "((int64(every.Step)-s.earlier.steps)%of + of) % of", "int64(every.Step) % of", loader},
		{"workers-lose-the-last-rows", "loader/lane/every.go", "	passed = (most + r.options.Rows - 1) / r.options.Rows\n", "	passed = most / r.options.Rows\n", lane},
		{"workers-end-with-their-own-step", "loader/lane/every.go", "		steps = min(steps, r.options.Steps-r.step)\n", "		steps = min(steps, max(0, r.options.Steps-r.step-1))\n", lane},
		{"what-is-skipped-is-not-looked-beyond", "loader/lane/every.go", "	return skipped, l.lookAhead(ctx, nothing)\n", "	return skipped, nil\n", lane},
		{"skipped-ranges-are-read", "loader/lane/every.go", "known != Unknown && (l.reader == nil ||", "known != Unknown && (l.reader == nil && l.at.Row < 0 ||", lane},
		{"skipped-rows-are-not-used", "loader/lane/every.go", "			l.used += int(rows)\n", "", lane},
		{"jumps-end-before-the-next-window", "loader/lane/every.go", "windows.WindowAt(given - 1)", "windows.WindowAt(given)", lane},
		{"jumps-stay-in-their-window", "loader/lane/every.go", "\tif l.Windows != nil {\n", "\tif l.Windows != nil && rows < 0 {\n", lane},
		{"skipped-steps-are-no-steps", "loader/stream/progress.go", "p.batches+r.Batches()", "p.batches+r.Steps()", loader},
		{"other-counts-are-not-seen", "loader/lane/every.go", "		if l.consumed > left || ended != (l.consumed == left) {\n", "		if l.consumed > left || ended && l.consumed > left {\n", lane},
		{"more-rows-than-counted-are-not-seen", "loader/lane/every.go", "		if l.consumed > left || ended != (l.consumed == left) {\n", "		if ended && l.consumed != left {\n", lane},
		{"parked-lanes-are-counted-again", "loader/stream/stream.go", "\t\tleft[i] -= s.earlier.consumed[i]\n", "\t\tleft[i] -= 0 * s.earlier.consumed[i]\n", loader},
		{"the-longest-lane-is-the-shortest", "loader/dataset/counts.go", "Shortest: slices.Min(lanes)", "Shortest: slices.Max(lanes)", loader},
		{"steps-are-of-the-longest-lane", "loader/dataset/counts.go", "		return c.Shortest / q\n", "		return c.Longest / q\n", dataset},
		{"left-over-rows-are-as-planned", "loader/stream/report.go", "s.start.counts.Lanes[l.Number] - r.Cursor.Given", "s.spec.Plan.Lanes[l.Number].Rows - r.Cursor.Given", loader},
		{"counts-come-before-filters", counted, "		rows += reader.RecordBatch().NumRows()\n	}\n", "	}\n	if at := s.joined.Range(0, index); true {\n		rows = at.To - at.From\n	}\n", loader},
		{"counts-leave-tables-out-that-drop-rows", "loader/joined/staging.go", "s.spec.CountOnly && !r.Counted(asked) {", "s.spec.CountOnly && !(asked || r.Duplicates.Multiply()) {", loader},
		{"counts-leave-tables-out-that-repeat-rows", "loader/joined/staging.go", "s.spec.CountOnly && !r.Counted(asked) {", "s.spec.CountOnly && !(asked || !r.Join.KeepsAll()) {", loader},
		{"counts-are-of-the-lane-before", counted, "		lanes[number] += rows\n", "		lanes[max(0, number-1)] += rows\n", loader},
		{"counts-join-what-can-only-fail", "loader/joined/staging.go", "!needed || s.spec.CountOnly && !r.Counted(asked) {", "!needed {", loader},
		{"estimates-are-counted", counts, "known != nil || !p.Query.CountsFirst() {", "known != nil {", loader},
		{"everybody-counts", counts, "	if run := c.running[id]; run != nil {\n", "	if run := c.running[id]; run != nil && run.waiting == 0 {\n", shared},
		{"nothing-counted-is-remembered", counts, "	if counts := c.counted[id]; counts != nil {\n", "	if counts := c.counted[id]; counts != nil && id == \"\" {\n", shared},
		{"counts-end-with-the-first", counts, "context.WithCancel(context.WithoutCancel(ctx))", "context.WithCancel(ctx)", shared},
		{"counts-never-end", counts, "		c.forget(id, run)\n		run.cancel()\n", "		c.forget(id, run)\n", shared},
		{"counts-are-remembered-without-end", counts, "	for c.lanes > rememberedLanes {\n", "	for c.lanes > 1<<40 {\n", shared},
		{"cursors-forget-their-counts", "loader/stream/progress.go", "		c.Counted = s.start.counts.Of(c.Shard)\n", "		c.Counted = nil\n", loader},
		{"cursors-counts-are-not-taken", counted, "	counts, err := r.Cursor.Counts()\n", "	counts, err := dataset.Cursors{}.Counts()\n", loader},
		{"cursors-counts-need-not-agree", "loader/dataset/counts.go", "(of.Rows != out.Rows || of.Shortest", "(of.Rows < 0 || of.Shortest", dataset},
		{"any-counts-can-be", "loader/dataset/counts.go", "	case rows+others*of.Shortest > of.Rows || rows+others*of.Longest < of.Rows:\n", "	case of.Rows < 0:\n", dataset},
		{"tickets-forget-their-counts", "flight/info.go", "			c.Counted = p.carried(shard)\n", "			c.Counted = nil\n", flight},
		{"tickets-need-no-counts", "flight/count.go", "\tif p.counts == nil && p.Query.CountsFirst() {\n", "\tif p.counts == nil && len(p.Lanes) == 0 {\n", flight},
		{"schemas-are-counted", "flight/service.go", "	return s.plan(ctx, query, policy.Reading)\n}\n\n// queryOf", "	p, err := s.plan(ctx, query, policy.Reading)\n	if err == nil {\n		err = s.count(ctx, &p)\n	}\n	return p, err\n}\n\n// queryOf", flight},
		{"endpoints-say-the-rows-of-all-workers", "flight/count.go", "\t\trows += p.Query.Every.Rows(left, p.perStep())\n", "\t\trows += left\n", flight},
		{"counts-have-no-place", "flight/count.go", "		if err := at.enter(in); err != nil {\n", "		if err := in.Err(); err != nil {\n", []string{"-run", "TestCountsNeedASlot", "-timeout", "20s", "./flight"}},
	}
}
