package main

// spillMutants break what is joined from local disk, and who waits for memory.
func spillMutants() []mutant {
	sliced, spooled := []string{"./joiner/spill"}, []string{"./internal/spool"}
	budgeted, scanned := []string{"./internal/budget"}, []string{"./loader/scan"}
	return []mutant{
		{
			"ahead-keeps-what-a-row-needs", "loader/joined/prefetch.go", " && s.ReleasePrefetched() {", " && len(s.lanes) > len(s.plan.Splits) {",
			[]string{"./loader"},
		},
		{
			"ahead-goes-to-another-range", "loader/joined/lane_state.go", "\tlast, held := l.references, l.built[index]\n", "\tlast, held := l.references, l.built[index+1]\n\tdelete(l.built, index+1)\n",
			[]string{"./loader"},
		},
		{"spilled-slices-differ-by-table", "joiner/spill/matchlog.go", "columns: columns, slices: parts}\n", "columns: columns, slices: max(parts-1, 1)}\n", sliced},
		{"spilled-rows-lose-their-order", "joiner/spill/partitionwriter.go", "			x.rows[ends[p]] = int32(row)\n", "			x.rows[ends[p]] = int32(len(to) - 1 - row)\n", sliced},
		{"spilled-rows-lose-their-files", "joiner/spill/partitionwriter.go", "		values[i] = w.out.rows + int64(i)\n", "		values[i] = int64(i)\n", sliced},
		{"spilled-null-times-match", "joiner/keyreader.go", "	for _, null := range [][]bool{k.encoded.null, k.times.null} {\n", "	for n, null := range [][]bool{k.encoded.null, k.times.null} {\n		if n > 0 && checks != nil {\n			continue\n		}\n", sliced},
		{"spilled-groups-are-mixed-up", "joiner/spill/logwriter.go", "	if w.last == identity {\n", "	if w.last == identity || w.last > 0 {\n", sliced},
		{"spilled-group-begins-late", "joiner/spill/logwriter.go", "	w.last, w.start = identity, int32(first)+1\n", "	w.last, w.start = identity, int32(first)+2\n", sliced},
		{"spilled-groups-are-found-in-the-next-portion", "joiner/spill/logwriter.go", "	w.last = 0\n	w.pass.held.Shrink", "	w.pass.held.Shrink", sliced},
		{"spilled-identities-outlive-their-rows", "joiner/spill/logwriter.go", "	clear(w.begun)\n", "	_ = w.begun\n", sliced},
		{"spilled-first-of-the-first-portion-alone", "joiner/spill/winners.go", "			wins[rows[0]], wins[rows[len(rows)-1]] = true, true\n", "			wins[rows[0]] = true\n", sliced},
		{"spilled-all-forgets-later-portions", "joiner/spill/runs.go", "		return append(runs, r)\n", "		return append(runs[:0], r)\n", sliced},
		{"spilled-all-takes-every-time", "joiner/spill/runs.go", "		return append(runs[:0], r)\n", "		return append(runs, r)\n", sliced},
		{"spilled-all-is-not-merged", "joiner/spill/runmerger.go", "	if len(runs) > 1 && m.order != nil {\n", "	if len(runs) > 99 && m.order != nil {\n", sliced},
		{"spilled-ties-go-to-the-later-portion", "joiner/spill/runmerger.go", "int(s.from-b.at.from)) < 0\n", "int(s.from-b.at.from)) <= 0\n", sliced},
		{"spilled-references-without-row-0", "joiner/spill/logrows.go", "			refs[i] = p.from.base + p.place\n", "			refs[i] = p.from.base + p.place - 1\n", sliced},
		{"spilled-training-rows-are-not-checked", "joiner/spill/logreader.go", "	if value(entryCheck) != r.checks[row] {\n", "	if value(entryCheck) != r.checks[row] && row < 0 {\n", sliced},
		{"spilled-counts-are-lost", "joiner/spill/logreader.go", "		matches.Counts = r.counts\n", "		matches.Counts = nil\n", sliced},
		{"spilled-store-is-not-released", "joiner/spill/logreader.go", "	r.log.store.Release()\n	r.held.Release()\n", "	r.held.Release()\n", sliced},
		{"divided-rows-of-no-part-stay", "joiner/spill/partitionwriter.go", "		if p >= 0 {\n			ends[p+1]++", "		p = max(p, 0)\n		if p >= 0 {\n			ends[p+1]++", sliced},
		{"spilled-custom-passes", "joiner/spill/sliced.go", "	if spec.Custom != nil {\n", "	if spec.Custom != nil && len(spec.Name) > 99 {\n", sliced},
		{"spool-passes-its-limit", "internal/spool/spool.go", "s.stats.Used+n > s.limit {", "s.stats.Used > s.limit {", spooled},
		{"spool-files-keep-their-names", "internal/spool/spool.go", "unlink: os.Remove,", "unlink: func(string) error { return os.ErrInvalid },", spooled},
		{"spool-does-not-check-sums", "internal/spool/file.go", "	if sum.Sum64() != x.sum {\n", "	if sum.Sum64() != x.sum && x.at < 0 {\n", spooled},
		{"spool-space-is-not-given-back", "internal/spool/file.go", "	f.spool.release(f.end)\n", "	f.spool.release(0)\n", spooled},
		{"spool-sweeps-files-in-use", "internal/spool/unlink_unix.go", "	if lock(f) == nil {\n", "	if lock(f) == nil || true {\n", spooled},
		{"spills-hoard", "joiner/spill/store.go", "int64(max(4, 2*o.Budget.Streams()))", "4", sliced},
		{"spills-do-not-give-way", "joiner/spill/partitionwriter.go", " || w.opts.Budget.Waited()\n", "\n", sliced},
		{"waiters-are-not-told", "internal/budget/budget.go", "		defer b.queue.mu.Unlock()\n		b.settle()\n	}\n}\n\n// tryReserve", "		defer b.queue.mu.Unlock()\n	}\n}\n\n// tryReserve", budgeted},
		{"stuck-memory-is-waited-for", "internal/budget/budget.go", "	if r.returned() {\n", "	if false {\n", budgeted},
		{"youngest-is-served-first", "internal/budget/wait.go", "return o.age > w.age })", "return o.age < w.age })", budgeted},
		{"oldest-fails", "internal/budget/wait.go", "	for _, w := range slices.Backward(q.waiting) {\n", "	for _, w := range slices.All(q.waiting) {\n", budgeted},
		{"nobody-goes-before-the-oldest", "internal/budget/wait.go", "		if q.blocked < q.open && b.shares", "		if q.blocked <= q.open && b.shares", budgeted},
		{"waiting-locks-up", "internal/budget/wait.go", "		if q.blocked == q.open || p.", "		if q.blocked > q.open || p.", budgeted},
		{"waits-for-what-cannot-come", "internal/budget/wait.go", " || n > r.budget.limit {", " {", budgeted},
		{"waiting-has-no-end", "internal/budget/wait.go", "context.WithTimeoutCause(ctx, maxWait, none)", "context.WithTimeoutCause(ctx, 60*maxWait, none)", budgeted},
		{"scans-do-not-wait", "loader/scan/prefetch.go", "			return q.held.GrowWait(ctx, n)\n", "			return q.held.Grow(n)\n", scanned},
	}
}
