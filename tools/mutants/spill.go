package main

// spillMutants break what is joined from local disk, and who waits for memory.
func spillMutants() []mutant {
	join, spooled := []string{"./joiner"}, []string{"./internal/spool"}
	budgeted, scanned := []string{"./internal/budget"}, []string{"./loader/scan"}
	return []mutant{
		{
			"ahead-keeps-what-a-row-needs", "loader/ranges.go",
			" && s.giveWay() {", " && len(s.ahead) > len(s.plan.Splits) {",
			[]string{"./loader"},
		},
		{"spilled-slices-differ-by-side", "joiner/spill_note.go", "		slice(n.encoder.encode(keys), parts, to, nil)\n", "		slice(n.encoder.encode(keys), max(parts-1, 1), to, nil)\n", join},
		{"spilled-rows-lose-their-order", "joiner/spill_divide.go", "			w.rows[ends[p]] = int32(row)\n			ends[p]++ // the start", "			w.rows[ends[p]] = int32(len(to) - 1 - row)\n			ends[p]++ // the start", join},
		{"spilled-rows-lose-their-files", "joiner/spill_divide.go", "		values[i] = d.out.rows + int64(i)\n", "		values[i] = int64(i)\n", join},
		{"spilled-null-times-match", "joiner/spill_replay.go", "		without(q.times.null, r.of)\n", "		_ = q.times.null\n", join},
		{"spilled-groups-are-mixed-up", "joiner/spill_write.go", "	if w.last == identity {\n", "	if w.last == identity || w.last > 0 {\n", join},
		{"spilled-group-begins-late", "joiner/spill_write.go", "	w.last, w.start = identity, int32(first)+1\n", "	w.last, w.start = identity, int32(first)+2\n", join},
		{"spilled-groups-are-found-in-the-next-side", "joiner/spill_write.go", "	w.last = 0\n	w.held.Shrink", "	w.held.Shrink", join},
		{"spilled-identities-outlive-their-rows", "joiner/spill_write.go", "	clear(w.begun)\n", "	_ = w.begun\n", join},
		{"spilled-first-of-the-first-chunk-alone", "joiner/spill_large.go", "			wins[rows[0]], wins[rows[len(rows)-1]] = true, true\n", "			wins[rows[0]] = true\n", join},
		{"spilled-all-forgets-later-chunks", "joiner/spill_all.go", "		return append(runs, r)\n", "		return append(runs[:0], r)\n", join},
		{"spilled-all-takes-every-time", "joiner/spill_all.go", "		return append(runs[:0], r)\n", "		return append(runs, r)\n", join},
		{"spilled-all-is-not-merged", "joiner/spill_all.go", "	if len(runs) > 1 && len(g.order) > 0 {\n", "	if len(runs) > 99 && len(g.order) > 0 {\n", join},
		{"spilled-ties-go-to-the-later-chunk", "joiner/spill_all.go", "			return c < 0\n		}\n	}\n	return false\n", "			return c < 0\n		}\n	}\n	return true\n", join},
		{"spilled-references-without-row-0", "joiner/spill_replay.go", "			refs[i] = w.from.base + w.pick\n", "			refs[i] = w.from.base + w.pick - 1\n", join},
		{"spilled-training-rows-are-not-checked", "joiner/spill_replay.go", "	if value(2) != r.checks[row] {\n", "	if value(2) != r.checks[row] && row < 0 {\n", join},
		{"spilled-counts-are-lost", "joiner/spill_replay.go", "		out.counts = r.counts\n", "		out.counts = nil\n", join},
		{"spilled-store-is-not-released", "joiner/spill_replay.go", "	r.notes.store.Release()\n	r.held.Release()\n", "	r.held.Release()\n", join},
		{"divided-rows-of-no-part-stay", "joiner/spill_divide.go", "		if p >= 0 {\n			ends[p+1]++", "		p = max(p, 0)\n		if p >= 0 {\n			ends[p+1]++", join},
		{"spilled-custom-passes", "joiner/spill.go", "	if spec.Custom != nil {\n", "	if spec.Custom != nil && len(spec.Name) > 99 {\n", join},
		{"spool-passes-its-limit", "internal/spool/spool.go", "s.stats.Used+n > s.limit {", "s.stats.Used > s.limit {", spooled},
		{"spool-files-keep-their-names", "internal/spool/spool.go", "unlink: os.Remove}", "unlink: func(string) error { return os.ErrInvalid }}", spooled},
		{"spool-does-not-check-sums", "internal/spool/file.go", "	if sum.Sum64() != x.sum {\n", "	if sum.Sum64() != x.sum && x.at < 0 {\n", spooled},
		{"spool-space-is-not-given-back", "internal/spool/file.go", "	f.spool.give(f.end)\n", "	f.spool.give(0)\n", spooled},
		{"spool-sweeps-files-in-use", "internal/spool/unlink_unix.go", "	if lock(f) == nil {\n", "	if lock(f) == nil || true {\n", spooled},
		{"waiters-are-not-told", "internal/budget/budget.go", "		b.settle()\n", "		_ = b.settle\n", budgeted},
		{"youngest-is-served-first", "internal/budget/wait.go", "return o.age > w.age })", "return o.age < w.age })", budgeted},
		{"oldest-fails", "internal/budget/wait.go", "		q.leave(q.waiting[len(q.waiting)-1], fault", "		q.leave(q.waiting[0], fault", budgeted},
		{"waiting-locks-up", "internal/budget/wait.go", "		if q.blocked < q.open {\n", "		if q.blocked <= q.open {\n", budgeted},
		{"waits-for-what-cannot-come", "internal/budget/wait.go", " || n > r.budget.limit {", " {", budgeted},
		{"waiting-has-no-end", "internal/budget/wait.go", "context.WithTimeoutCause(ctx, Patience, none)", "context.WithTimeoutCause(ctx, 60*Patience, none)", budgeted},
		{"scans-do-not-wait", "loader/scan/prefetch.go", "			return q.held.GrowWait(ctx, n)\n", "			return q.held.Grow(n)\n", scanned},
	}
}
