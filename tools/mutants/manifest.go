package main

// manifestMutants break the reading of manifests as writers leave them.
func manifestMutants() []mutant {
	schema, fixed := "loader/catalog/icebergcat/metafile/avro_schema.go", "loader/catalog/icebergcat/metafile/avro_fixed.go"
	tests := []string{"./loader/catalog/icebergcat", "-run=NamedTypes|Hostile|MayHaveLengths|DoNotName|Codecs|LaterFormats"}
	resolve := []string{"./loader/resolve", "-run=DecimalKeys"}
	order, commits := []string{"./joiner/spill", "-run=UnknownOrder|LaterPortions"}, []string{"./loader", "-run=Commits"}
	return []mutant{
		{"decimals-match-by-their-digits", "loader/resolve/keys.go", "		return ok && x.Scale == y.Scale\n", "		return ok && x.Precision == y.Precision && x.Scale == y.Scale\n", resolve},
		{"ties-are-guessed", "joiner/verdict.go", "		if n < 0 {\n", "		if n < 0 && p.Rule.RefusesDuplicates() {\n", order},
		{"ties-of-portions-are-forgotten", "joiner/spill/winners.go", "		if rival, ok := f.Rival(i); ok {\n", "		if rival, ok := f.Rival(i); ok && rival < 0 {\n", order},
		{"the-last-is-as-known-as-the-first", "joiner/groups.go", "		if !d.arrival.Known(files[len(files)-1], file) {\n", "		if !d.arrival.Known(files[0], file) {\n", order},
		{"later-portions-lose-ties", "joiner/groups.go", "range slices.Backward(files)", "range files", order},
		{"times-order-nothing", "joiner/groups.go", "b.rank.level(g.members[at-1], g.members[at]) == 0", "b.rank.level(g.members[at-1], g.members[at]) <= 0", order},
		{"order-by-changes-no-refusal", "loader/plan/committed.go", "	if !needsCommits(r) || ordersItself(r) {\n", "	if !needsCommits(r) {\n", commits},
		{"files-have-a-known-order", "loader/plan/committed.go", "	return !found\n", "	return !found || one != other\n", commits},
		{"decimals-match-by-any-scale", "loader/resolve/keys.go", "		return ok && x.Scale == y.Scale\n", "		return ok && x.Scale >= y.Scale-9\n", resolve},
		{"references-to-fixed-types-stay", schema, "	if !ok || of.node[typeAttr] != avroFixed {\n", "	if !ok || of.node[typeAttr] == avroFixed {\n", tests},
		{"types-that-are-defined-twice-are-refused", schema, "				if !sameFixed(first.node, node) {\n", "				if sameFixed(first.node, node) {\n", tests},
		{"any-type-may-be-defined-twice", schema, "				if !sameFixed(first.node, node) {\n", "				if !sameFixed(first.node, first.node) {\n", tests},
		{"names-beyond-ascii-stay", schema, "		if renamed {\n", "		if renamed && i < 0 {\n", tests},
		{"new-names-meet-others", schema, "		if renamed {\n", "		if name, _ := f[nameAttr].(string); renamed && !isAvroName(name) {\n", tests},
		{"schemas-multiply", schema, "	if root.width > len(text) {\n", "	if root.width > len(text)<<10 {\n", tests},
		{"wide-partitions-are-free", schema, "		out.record += perValue", "		out.record += 0 * perValue", tests},
		{"lengths-of-fixed-values-are-values", fixed, "records) || !prefixed.fixed {\n", "records) || prefixed.fixed {\n", tests},
		{"either-way-of-fixed-values-will-do", fixed, "	if fits {\n", "	if fits && records < 0 {\n", tests},
		{"manifests-name-their-content", "loader/catalog/icebergcat/metafile/container.go", "	if how.Content != \"\" && len", "	if how.Content == \"\" && len", tests},
		{"other-codecs-are-damage", "loader/catalog/icebergcat/metafile/unpack.go", "	case \"bzip2\", \"xz\":\n", "	case \"bzip3\":\n", tests},
		{"fields-of-later-formats-are-refused", "loader/catalog/icebergcat/load.go", "		if version < since {\n", "		if version > since {\n", tests},
	}
}
