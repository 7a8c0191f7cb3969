package main

// movedDeleteMutants bring deleted rows back, or delete others, when files are replaced.
func movedDeleteMutants() []mutant {
	of := func(tests string) []string { return []string{"./loader/catalog/icebergcat", "-run=" + tests} }
	with, misfits, stay := of("DeletesAreCommittedWith/sqlite"), of("DeletesAndRowsThatDo/sqlite"), of("DeletesOfFilesThatStay/sqlite")
	values, moved := []string{"./loader/catalog/commit"}, []string{"./loader/repoint"}
	const dir, checks = "loader/catalog/icebergcat/", "loader/catalog/commit/check_deletes.go"
	return []mutant{
		{"vectors-of-removed-files-stay", dir + "removing.go", "of != nil && isVector(d) && r.files[*of]", "of != nil && isVector(d) && r.deletes[*of]", with},
		{"removed-deletes-need-not-exist", dir + "removing.go", "slices.Sorted(maps.Keys(r.leftDeletes))...", "slices.Sorted(maps.Keys(r.leftDeletes))[:0]...", stay},
		{"deletes-of-files-that-stay-are-removed", dir + "delete_changes.go", "gone.deletes[d.Location] && !spansFiles(d) {", "gone.deletes[d.Location] && spansFiles(d) {", stay},
		{"rewritten-files-are-new-to-deletes", dir + "delete_changes.go", "		if f.Sequence > 0 { // other", "		if f.Sequence < 0 { // other", stay},
		{"rewrites-lose-rows", dir + "delete_changes.go", "removed-added == s.change.DroppedRows {", "removed-added >= s.change.DroppedRows {", misfits},
		{"rows-are-dropped-without-deletes", dir + "delete_changes.go", "	if deleted < s.change.DroppedRows {\n", "	if deleted < 0 {\n", misfits},
		{"all-versions-have-all-deletes", dir + "delete_changes.go", "version < firstVersionOfDeletes || vector != (version >= lineageVersion):", "version < 0 && vector:", misfits},
		{"deletes-are-of-any-file", checks, "		case of == nil:\n", "		case of == nil && d.Data == \"\":\n", values},
		{"files-have-two-vectors", checks, "		vectors[d.Data] = vectors[d.Data] || d.Kind == catalog.DeletionVector\n", "		vectors[d.Data] = false\n", values},
		{"deletes-are-of-another-partition", checks, "	case d.Spec != f.Spec || ", "	case ", values},
		{"deletes-are-older-than-their-file", checks, "(f.Sequence == 0 || d.Sequence < f.Sequence):", "(f.Sequence == 0 && d.Sequence < f.Sequence):", values},
		{"named-files-that-stay-are-forgotten", "loader/repoint/repoint.go", "!gone[name] && (stays == nil || stays(name))", "!gone[name] && stays != nil && stays(name)", moved},
		{"files-that-are-gone-keep-deletes", "loader/repoint/repoint.go", "!gone[name] && (stays == nil || stays(name))", "!gone[name]", moved},
		{"one-set-of-positions-moves", "loader/deletes/file_positions.go", "	for _, set := range rows.positions {\n		out.set.union(set)\n", "	for _, set := range rows.positions[:min(1, len(rows.positions))] {\n		out.set.union(set)\n", moved},
		{"upper-halves-are-lost", "loader/deletes/bitmap.go", "			b.part(p.upper).Or(p.lower)\n", "			b.part(0).Or(p.lower)\n", []string{"./loader/deletes"}},
		{"locations-have-any-encoding", "internal/parquet/write/choose.go", "		if slices.Contains(opts.Dictionary, l.id) {\n", "		if slices.Contains(opts.Dictionary[:0], l.id) {\n", []string{"./internal/parquet/write", "-run=Dictionary"}},
	}
}
