package main

// foundMutants put faults back that were once in the product while all tests
// passed.
func foundMutants() []mutant {
	parquet := []string{"-run", "Flipped|GaveOtherRows|TestChecksums|TestSurplus", "./internal/parquet"}
	scanned, resolve, whole := []string{"./loader/scan"}, []string{"./loader/resolve"}, []string{"-run", "TestRecreatedTables", "./cmd/penstock"}
	return []mutant{
		{"verify-keeps-text-of-released-rows", "loader/verify/layout.go", "	return strings.Clone(value)\n", "	return value\n", []string{"-run", "TestVerify", "./cmd/penstock"}},
		{"footers-of-other-tables", "loader/scan/open.go", "footerID{table: t.Pin.UUID, ", "footerID{", scanned},
		{"footers-of-recreated-tables", "loader/scan/open.go", "footerID{table: t.Pin.UUID, ", "footerID{", whole},
		{"footers-of-other-lengths", "loader/scan/open.go", "footer.FileSize() != object.Size()", "false", scanned},
		{"align-by-any-field-of-the-name", "loader/resolve/align.go", "isColumn && column.ID != named.ID ||", "isColumn && column.ID != named.ID && p.Name != name ||", resolve},
		{"align-by-two-columns", "loader/resolve/align.go", "	if *from != 0 && *from != p.from {\n", "	if *from != 0 && *from > p.from {\n", resolve},
		{"failed-tries-ahead-go-to-disk", "loader/buildside/build.go", "			g.builtInMemory = err == nil // if", "			g.builtInMemory = true // if", []string{"./loader"}},
		{"build-sides-that-gave-way-are-read-forever", "loader/buildside/build.go", "			g.builtInMemory = err == nil // if", "			g.builtInMemory = false // if", []string{"./loader"}},
		{"waiting-for-what-is-built-ahead-does-not-count", "internal/budget/prefetch.go", "	s.awaited = true\n", "	s.awaited = false\n", []string{"./internal/budget", "./loader/buildside"}},
		{"what-others-build-ahead-is-not-waited-for", "loader/buildside/reference.go", "	if p == nil {\n", "	if p == nil || p.owner != r {\n", []string{"./loader/buildside"}},
		{"want-of-memory-takes-what-is-on-disk", "loader/buildside/build.go", "errors.Is(err, spill.ErrDiskFull) &&", "(errors.Is(err, spill.ErrDiskFull) || fault.KindOf(err) == fault.Exhausted) &&", []string{"./loader/buildside"}},
		{"what-is-built-ahead-stays", "loader/buildside/reference.go", "	one.need.Pin().Release() // makes", "	// makes", []string{"./loader/buildside"}},
		{"what-was-built-ahead-of-nobody-stays", "loader/buildside/reference.go", "		p.partition.release()\n	}\n}\n\n// PrefetchOpen", "		_ = p.partition\n	}\n}\n\n// PrefetchOpen", []string{"./loader/buildside"}},
		{"what-is-built-ahead-ends-with-its-reference", "loader/buildside/reference.go", "	case g.references == 1:", "	case g.references == 1 || p.owner == r:", []string{"./loader/buildside", "./loader"}},
		{"what-is-built-ahead-takes-what-is-on-disk", "loader/buildside/build.go", "	if !prefetch && errors.Is(", "	if errors.Is(", []string{"./loader/buildside"}},
		{"spilled-bytes-forget-the-log", "joiner/spill/matchlog.go", "	p.spilled(p.training.Bytes() + store.Bytes())\n", "	p.spilled(p.training.Bytes())\n", []string{"-run", "TestSpilledBytes", "./loader"}},
		{"who-waits-for-a-build-side-runs", "cache/shared.go", "	return n.get(ctx, budget.MarkBlocked, load)", "	return n.get(ctx, unmarked, load)", []string{"./cache"}},
		{"pages-may-have-other-counts", "internal/parquet/page_stats.go", "	case c.values != described.NumValues:\n", "	case c.values > 1<<40:\n", parquet},
		{"pages-may-have-other-encodings", "internal/parquet/page_stats.go", "len(listed) > 0 && !listed[canonical(e)] {", "len(listed) > 99 && !listed[canonical(e)] {", parquet},
		{"fields-may-say-nothing-of-nulls", "internal/parquet/footer.go", "> parquet.Repetitions.Repeated {", "> 99 {", parquet},
		{"timestamps-may-have-two-units", "internal/parquet/footer.go", "&& unit.MICROS == nil {", "&& unit.MICROS == nil && unit.NANOS == nil {", parquet},
		{"levels-are-taken-for-values", "internal/parquet/group.go", "	if r.needsLevelCheck(c) {\n", "	if r.needsLevelCheck(c) && c.field > 1<<20 {\n", parquet},
		{"surplus-values-are-dropped", "internal/parquet/value_decoder.go", "	if len(l.values) > 0 || ", "	if len(l.values) > 1<<30 || ", parquet},
	}
}
