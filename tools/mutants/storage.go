package main

// storageMutants break what happens while storage hangs.
func storageMutants() []mutant {
	storage, parquet, scanned := []string{"./internal/store"}, []string{"-run", "TestReadsLeftBehind", "./internal/parquet"}, []string{"./loader/scan"}
	return []mutant{
		{
			"memory-of-hanging-reads-is-used-again", "internal/parquet/source.go",
			"		store.WhenReturned(err, s.scratch.detach(content).Release)", "		s.scratch.Free(content)", parquet,
		},
		{
			"memory-of-hanging-chunks-is-used-again", "internal/parquet/source.go",
			"			store.WhenReturned(err, s.scratch.detach(s.regions[i].content).Release)", "			s.scratch.Free(s.regions[i].content)", parquet,
		},
		{
			"hanging-reads-are-not-charged", "loader/scan/file.go",
			"		Part: func(n int64) func() { return w.queue.held.Split(n).Release },\n", "		Part: func(n int64) func() { w.queue.held.Split(n).Release(); return func() {} },\n", scanned,
		},
		{"what-is-decoded-counts-as-given-up", "loader/scan/spare.go", "one.lent.Load() || one.held.Held() == 0", "true", scanned},
		{"files-are-closed-under-hanging-reads", "internal/store/bounded.go", "if !o.closed || o.calls > 0 {", "if !o.closed {", storage},
		{"mounts-take-any-number-of-calls", "internal/store/calls.go", "make(chan struct{}, maxCalls)", "make(chan struct{}, 1000*maxCalls)", storage},
		{"storage-has-no-deadline", "internal/store/calls.go", "	if timeout <= 0 {\n		timeout =", "	if timeout >= 0 {\n		timeout =", storage},
		{"files-that-hang-are-asked-again", "internal/store/calls.go", "return c.files[location] > 0", "return c.files[location] > 1000", storage},
		{"devices-are-opened", "internal/store/local.go", "	return checkPlain(found, location)\n", "	_ = found\n	return nil\n", storage},
		{"links-to-mounts-are-not-followed", "internal/store/mounts.go", "		if to, err := t.link(prefix); err == nil {", "		if to, err := t.link(prefix); err == nil && to == \"\" {", storage},
		{
			"the-catalogs-file-holds-its-callers", "loader/catalog/sqlcat/sqlite.go",
			`store.Call(ctx, c.calls, string(to)`, `store.Call(ctx, nil, string(to)`,
			[]string{"./loader/catalog/icebergcat"},
		},
	}
}
