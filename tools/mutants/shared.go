package main

// sharedMutants break how scans share row groups, and where they begin and end in these.
func sharedMutants() []mutant {
	parquet, scanned := []string{"-run", "Shared|Dictionar|Rows|Pages", "./internal/parquet"}, []string{"./loader/scan"}
	return []mutant{
		{"expected-bytes-are-not-kept", "internal/parquet/shared.go", "return c != nil && !c.closed.Load()", "return c != nil && c.closed.Load()", scanned},
		{"bytes-in-use-are-given-up", "internal/parquet/fetch.go", "if delete(f.users, by); len(f.users) > 0 {", "if delete(f.users, by); len(f.users) > 9 {", parquet},
		{"each-scan-reads-its-own-bytes", "internal/parquet/shared.go", "f != nil && f.join() {", "f != nil && f.join() && c.closed.Load() {", scanned},
		{"shared-reads-fail-for-all", "internal/parquet/fetch.go", "if err != nil && started {", "if started && err != nil || err != nil {", parquet},
		{"scans-that-are-past-keep-bytes", "loader/scan/shared.go", "moved, r.next = true, row", "moved = true", scanned},
		{"scans-that-are-done-keep-bytes", "loader/scan/shared.go", "func(r *expectedRange) int64 { return r.to }", "func(r *expectedRange) int64 { return r.next }", scanned},
		{"each-reader-has-its-dictionary", "internal/parquet/dictionary.go", "c.dictionary.bytes > 0 &&", "c.dictionary.bytes < 0 &&", parquet},
		{"shared-dictionaries-are-free", "internal/parquet/dictionary.go", "one.spare = r.keep(c.dictionary.bytes, r.source.fetched.drop)", "one.spare = unchargedSpare{}", parquet},
		{"shared-bytes-are-free", "internal/parquet/shared.go", "f.start(wanted, r.keep(stored, f.drop))", "f.start(wanted, unchargedSpare{})", parquet},
		{"one-reader-gives-up-for-all", "internal/parquet/shared.go", "if giveUp == nil || !giveUp() {", "if giveUp == nil || !giveUp() && len(f.users) == 1 {", parquet},
		{"scans-give-up-once-for-all-columns", "loader/scan/prefetch.go", "			q.mu.Unlock()\n			return errGivenUp", "			q.givesUp = false\n			q.mu.Unlock()\n			return errGivenUp", []string{"-run", "TestGiveUp", "./loader/scan"}},
		{"scans-that-are-waited-for-give-up", "loader/scan/prefetch.go", "	if q.starving {\n		return q.ended", "	if q.starving && q.ended {\n		return q.ended", []string{"-run", "TestGiveUp", "./loader/scan"}},
		{"rows-that-are-given-up-are-lost", "loader/scan/walk.go", "		w.open.row = w.open.first\n", "", scanned},
		{"no-page-is-stepped-over", "internal/parquet/group.go", "if to-from < r.file.groups[group].Rows {", "if to < from {", parquet},
		{"pages-after-the-rows-are-decoded", "internal/parquet/view.go", "i >= 0 && s.at[i].rows >= to; i--", "i >= len(s.at); i--", parquet},
		{"the-last-page-is-left-out", "internal/parquet/view.go", "s.at[i].rows >= to; i--", "s.at[i].rows >= to-1; i--", parquet},
		{"rows-before-the-first-are-returned", "internal/parquet/view.go", "drop := from - r.group.views[c.leaves[0]].row", "drop := from - from", parquet},
		{"leaves-begin-at-different-rows", "internal/parquet/view.go", "begin, aligned = at.rows, false", "aligned = begin >= at.rows", parquet},
		{"pages-that-continue-a-row-begin-one", "internal/parquet/view.go", "return pageCount{rows: h.rows, begins: true}, begins", "return pageCount{rows: h.rows, begins: true}, begins || h.rows > 0", parquet},
		{"headers-may-count-any-rows", "internal/parquet/view.go", "return starts, starts.rows == f.groups[group].Rows && starts.at[0].rows == 0", "return starts, starts.at[0].rows == 0", parquet},
		{"nulls-are-skipped-as-values", "internal/parquet/flat.go", "present, err := c.levels.skipPresent(c.optional, n)\n", "present := n\n		_, err := c.levels.skipPresent(c.optional, n)\n", parquet},
		{"null-strings-are-skipped-as-values", "internal/parquet/byte_array.go", "present, err := c.levels.skipPresent(c.optional, n)\n", "present := n\n		_, err := c.levels.skipPresent(c.optional, n)\n", parquet},
		{"values-of-skipped-lists-stay", "internal/parquet/list.go", "if err := c.pass(present); err != nil {", "if err := c.pass(present - present); err != nil {", parquet},
		{"levels-that-continue-are-rows", "internal/parquet/page_count.go", "out.rows = int64(p.count - continued)", "out.rows = int64(continued)", parquet},
		{"scans-begin-with-the-row-group", "loader/scan/file.go", "max(group.FirstRow, r.want.From), min(", "group.FirstRow, min(", scanned},
	}
}
