package main

// cacheMutants are ways in which what is kept for later streams returns rows of others, takes
// memory that streams need, or is not used.
func cacheMutants() []mutant {
	kept, built := []string{"-timeout", "60s", "./cache"}, []string{"-run", "TestKept", "./loader/buildside"}
	idle := []string{"-run", "TestIdle", "./internal/budget"}
	chunks, scanned := []string{"-timeout", "60s", "./loader/scan/chunkcache"}, []string{"-timeout", "120s", "-run", "Cache|Invalidate", "./loader/scan"}
	const view, unit, evict, fill, cached = "loader/scan/chunkcache/view.go", "loader/scan/chunkcache/unit.go", "loader/scan/chunkcache/evict.go", "loader/scan/chunkcache/fill.go", "loader/scan/cached.go"
	return []mutant{
		{"batches-keep-their-stream", "internal/parquet/account.go", "\tm.closed, m.account = true, nil\n", "\tm.closed = true\n", []string{"./internal/parquet"}},
		{"kept-values-stay-under-pressure", "cache/shared.go", "		b.OnLack(func(bytes int64) { s.release(bytes) })\n", "", kept},
		{"kept-values-have-no-bound", "cache/keep.go", "	s.release(excess)\n", "	_ = excess\n", kept},
		{"kept-values-count-as-used", "cache/keep.go", "	s.budget.AddIdle(size)\n", "", kept},
		{"needed-values-count-as-idle", "cache/shared.go", "	s.budget.AddIdle(-again)\n", "	_ = again\n", kept},
		{"values-on-disk-are-kept", "cache/shared.go", "keep && e.loaded && e.value.Size().Disk == 0", "keep && e.loaded", kept},
		{"no-build-side-is-kept", "loader/buildside/pool.go", "NewKeeping[buildSide](o.Budget, o.Keep)", "NewKeeping[buildSide](o.Budget, 0)", built},
		{"kept-build-sides-are-of-any-snapshot", "loader/buildside/groups.go", "id := groupID{input: g.input.Identity, ", "id := groupID{", built},
		{"idle-memory-is-not-for-waiters", "internal/budget/idle.go", "		b.serveWaiters()\n", "", idle},
		{"idle-memory-is-not-free", "internal/budget/press.go", "b.InUse() <= b.limit/2", "b.used.Load() <= b.limit/2", idle},
		{"dropped-columns-are-read", view, "if !s.kept || c.lost", "if c.lost", chunks},
		{"slices-of-columns-begin-at-once", view, "array.NewSlice(whole, from, from+rows)", "array.NewSlice(whole, from-from, rows)", chunks},
		{"views-do-not-keep-memory", unit, "	if s.views == 0 {\n		e.idle -= s.bytes\n", "	if s.views >= 0 {\n		e.idle -= s.bytes\n", chunks},
		{"views-are-idle", unit, "		e.idle -= s.bytes\n	}\n}\n\n// endView", "	}\n}\n\n// endView", chunks},
		{"pinned-columns-go-first", "loader/scan/chunkcache/cache.go", "if u.pins++; u.place >= 0 {", "if u.pins++; u.place >= 9 {", chunks},
		{"the-cache-has-no-limit", evict, "bytes > 0 && c.bytes+c.promised+bytes > c.options.Limit {", "bytes > 0 && c.bytes+c.promised > c.options.Limit {", chunks},
		{"tables-read-in-turns-push-out-themselves", evict, "c.order[0].priority <= c.clock+lead*rate", "c.order[0].priority <= c.clock+2*rate", chunks},
		{"tables-that-are-not-read-stay", evict, "	c.clock += lead", "	c.clock += 0 * lead", chunks},
		{"memory-is-not-given-up", "loader/scan/chunkcache/cache.go", "	o.Budget.OnLack(c.giveUp)\n", "", chunks},
		{"first-scans-fill", fill, "if !rule && !of.Spare {", "if !rule && of.Spare {", chunks},
		{"parts-of-columns-are-kept", fill, "f.end(f.at == f.to)", "f.end(true)", chunks},
		{"columns-are-of-any-row-group", cached, "	out.RowGroup = group\n", "", scanned},
		{"columns-are-of-any-file", cached, "File: relative(w.source.Table, want.File.Location), ", "", scanned},
		{"all-columns-are-read-beside-cached-ones", "internal/parquet/cached.go", "out[i].field, out[i].leaves = -1, nil", "out[i].field = -1", scanned},
		{"cached-columns-begin-with-the-row-group", "internal/parquet/cached.go", "			one.Skip(from)\n", "", scanned},
		{"cached-columns-are-charged-again", "loader/scan/walk.go", "	return batch.OwnArraySize(mine...), batch.OwnArraySize(others...)\n", "	return batch.OwnSize(out), batch.OwnArraySize(others...)\n", scanned},
		{"dropped-columns-end-the-stream", "loader/scan/walk.go", "case errors.Is(err, chunkcache.ErrGone):", "case errors.Is(err, chunkcache.ErrGone) && w.open == nil:", scanned},
		{"columns-of-another-mapping-are-used", cached, "		if o.mapped {\n", "		if o.mapped && i < 0 {\n", []string{"-run", "TestCachedColumnsDependOn", "./loader/scan"}},
		{"columns-of-another-type-are-used", cached, "Field: f.ID, Type: typeText(f),", "Field: f.ID, Type: \"any\",", []string{"-run", "TestCachedColumnsDependOn", "./loader/scan"}},
		{"values-of-manifests-are-cached", cached, "!catalog.IsLineage(f.ID) && ", "", []string{"-run", "TestCachedColumnsDependOn", "./loader/scan"}},
		{"kept-values-are-evicted", "cache/shared.go", "!e.loaded || e.kept || ", "!e.loaded || ", kept},
		{"idle-memory-is-not-for-those-beyond-their-share", "internal/budget/wait.go", "	b.serveWaiters()\n", "", idle},
		{"streams-fail-before-columns-are-freed", unit, "	for _, s := range e.freed {\n", "	c.options.Budget.AddIdle(e.idle)\n	e.idle = 0\n	for _, s := range e.freed {\n", chunks},
		{"columns-that-went-are-looked-up-again", cached, "if c.lost == group+1 {", "if c.lost < 0 {", []string{"-run", "TestColumns", "./loader/scan"}},
		{"tables-without-uuid-are-one", cached, " || w.source.Table.Pin.UUID == noUUID {", " {", []string{"-run", "TestColumns", "./loader/scan"}},
		{"columns-from-disk-need-memory", "loader/scan/chunkcache/disk.go", "limit >= 0 && b.InUse()", "limit < 0 && b.InUse()", chunks},
		{"streams-without-the-cache-join-others", "loader/fanout/key.go", "	if !r.Cache.Off() {\n", "	if r.Cache != \"any\" {\n", []string{"-run", "TestKey", "./loader/fanout"}},
		{"verifying-uses-the-cache", "loader/verify/verify.go", "	source.Cache = dataset.CacheOff", "	source.Cache = dataset.CacheRead", []string{"-run", "TestVerify", "./loader/verify"}},
	}
}
