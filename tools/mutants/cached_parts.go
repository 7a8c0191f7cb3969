package main

// cachedPartMutants are ways in which a column that scans of parts of a row group fill together has other rows, or takes
// more memory than it should.
func cachedPartMutants() []mutant {
	const fill, unit, spans, view = "loader/scan/chunkcache/fill.go", "loader/scan/chunkcache/unit.go", "loader/scan/chunkcache/spans.go", "loader/scan/chunkcache/view.go"
	parts := []string{"-timeout", "60s", "./loader/scan/chunkcache"}
	scanned := []string{"-timeout", "120s", "-run", "Cache", "./loader/scan"}
	epochs := []string{"-timeout", "120s", "-run", "TestShuffled", "./loader"}
	reported := []string{"-timeout", "60s", "-run", "TestReportsCount", "./loader"}
	return []mutant{
		{"missing-rows-are-found", "loader/scan/chunkcache/cache.go", "u.content.spans.cover(want.From, want.To)", "u.has()", parts},
		{"gaps-count-as-rows", spans, "i < len(r) && r[i].from <= from; i++", "i < len(r); i++", parts},
		{"rows-that-overlap-are-there-twice", spans, "		row = max(row, one.to)\n", "		row = max(row, one.from)\n", parts},
		{"arrays-begin-with-their-span", view, "from := p.row - s.from\n", "from := p.row - p.spans[0].from\n", parts},
		{"arrays-without-missing-rows-are-kept", fill, "f.ended || u.content.spans.cover(s.from, s.end())", "f.ended", parts},
		{"arrays-within-others-stay", unit, "return u.pins == 0 && one.from", "return u.pins < 0 && one.from", parts},
		{"arrays-that-are-read-are-replaced", unit, "return u.pins == 0 && one.from", "return one.from", parts},
		{"needless-arrays-stay-charged", fill, "			one.release(&e)\n", "", parts},
		{"overlaps-have-no-bound", fill, "u.pins == 0 && u.repeated() > u.rows/maxRepeated", "u.repeated() < 0", parts},
		{"columns-that-lack-room-are-dropped-while-read", fill, "	if u.pins == 0 {\n		c.drop(u, e)\n	}\n", "	c.drop(u, e)\n", parts},
		{"parts-take-each-others-room", unit, "	return max(u.scaled(t, u.rows)-(t.bytes-t.fixed), 0)\n", "	return 0\n", parts},
		{"dropped-parts-keep-their-room", "loader/scan/chunkcache/evict.go", "		c.promised -= u.promised\n", "", parts},
		{"dropped-columns-are-filled", fill, "if f.ended = !f.isCurrent(); f.ended", "if f.ended = false; f.ended", parts},
		{"arrays-of-ended-scans-stay", fill, "	f.segments, f.ended = nil, true\n", "	f.ended = true\n	if !keep {\n		u.fills = append(u.fills, f)\n	}\n", parts},
		{"each-part-counts-as-a-reading", "loader/scan/chunkcache/ghosts.go", "		return before >= all\n", "		return before > 0\n", parts},
		{"decoding-is-measured-by-row-group", "loader/scan/chunkcache/rates.go", "	if sum, known := r[rateKey{of.Table, of.Field, of.Type}]; known {\n", "	if sum, known := r[rateKey{of.Table, of.Field, of.Type}]; known && some.bytes == 0 {\n", parts},
		{"the-disk-gets-parts", fill, "if filled && !u.spare && f.isCurrent()", "if !u.spare && f.isCurrent()", parts},
		{"the-disk-gets-rows-twice", "loader/scan/chunkcache/codes.go", "p.from-p.segment.from, p.to-p.segment.from", "0, p.to-p.segment.from", parts},
		{"parts-from-disk-are-not-replaced", "loader/scan/chunkcache/disk.go", "part != nil && !part.complete()", "part != nil && part.complete()", parts},
		{"each-part-reads-the-column-from-disk", "loader/scan/chunkcache/cache.go", "[]*cachedUnit{c.units[of], c.passing[of]}", "[]*cachedUnit{c.units[of]}", parts},
		{"columns-from-disk-pass-without-limit", "loader/scan/chunkcache/disk.go", "c.promised+c.passingBytes <= ", "c.promised <= ", parts},
		{"two-scans-hold-a-column-from-disk", "loader/scan/chunkcache/disk.go", "	return c.passing[of]\n", "	return nil\n", parts},
		{"parts-are-looked-for-as-a-whole", "loader/scan/cached.go", "From: max(from-of.FirstRow, 0), To: min(to-of.FirstRow, of.Rows)", "To: of.Rows", scanned},
		{"parts-begin-with-the-row-group", "loader/scan/cached.go", "From: r.row - group.FirstRow, To: r.end - group.FirstRow", "To: r.end - group.FirstRow", scanned},
		{"shuffled-epochs-fill-nothing", "loader/scan/cached.go", "	for i := range c.fills {\n		if column", "	for i := range c.fills[:len(c.fills)*int((r.end-r.row)/group.Rows)] {\n		if column", epochs},
		{"arrays-become-shorter-in-each-epoch", view, "	for i := 1; 0 < rows && ", "	for i := 1; rows < 0 && ", append([]string{"-run", "TestColumnsThatReturn"}, scanned[4:]...)},
		{"joined-arrays-span-gaps", view, " && p.spans[i].from == p.row+rows && ", " && ", parts},
		{"joined-arrays-have-any-size", view, "p.spans[i].segment.bytesOf(more) > shortBytes", "p.spans[i].segment.bytesOf(more) < 0", parts},
		{"copies-count-as-views", "internal/parquet/cached.go", "return from != nil && !from.Copied()", "return from != nil", scanned},
		{"copies-are-counted-by-their-last-part", view, "p.last.Bytes+bytes, ", "bytes, ", parts},
		{"reports-leave-out-bytes-from-the-cache", "loader/scan/cached.go", "{Bytes: last.Bytes, Saved: last.Saved}", "{Saved: last.Saved}", reported},
		{"reports-of-sharing-streams-leave-out-the-first-columns", "loader/stream/step.go", "len(s.stepwise.before.costs)), plan.CacheRead{}\n", "len(s.stepwise.before.costs)), s.stepwise.before.cached\n", []string{"-timeout", "60s", "-run", "TestReportsOf", "./loader"}},
		{"reports-of-sharing-streams-leave-out-the-first-files", "loader/stream/step.go", "make([]buildside.Costs, len(s.stepwise.before.costs)), ", "s.stepwise.before.costs, ", []string{"-timeout", "60s", "-run", "TestSharingStreamsReport", "./loader"}},
		{"reports-leave-out-columns-from-the-cache", "loader/scan/cached.go", "more.Columns = 1", "more.Columns = 0", reported},
	}
}
