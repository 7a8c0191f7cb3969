package main

// writeSeamMutants break what the parts of the write path assume of each other.
func writeSeamMutants() []mutant {
	stages, lists := []string{"./loader/stage"}, []string{"./loader/catalog/icebergcat/manifests"}
	const folder = "loader/catalog/icebergcat/manifests/"
	return []mutant{
		{"empty-bounds-are-absent", folder + "write.go", "			if bound != nil && *bound == nil {\n", "			if bound != nil && *bound != nil {\n", lists},
		{"new-manifests-lose-their-rows", folder + "write.go", "		AddedRows(m.AddedRows()).", "		AddedRows(m.DeletedRows()).", lists},
		{"partition-names-are-not-replaced", folder + "name.go", "		f.Name = avroName(f.Name)\n", "		_ = avroName(f.Name)\n", lists},
		{"partition-names-begin-with-digits", folder + "name.go", "i > 0 && '0' <= c", "i >= 0 && '0' <= c", lists},
		{"added-uuids-are-fixed", "loader/stage/partition_files.go", "slices.Concat(t.state.UUIDs, t.uuids)", "slices.Concat(t.state.UUIDs, t.uuids[:0])", stages},
		{"calls-without-rows-create-tables", "loader/stage/stage.go", "	if len(sorted.Partitions()) == 0 {\n", "	if len(sorted.Partitions()) < 0 {\n", stages},
		{"null-columns-are-not-charged", "loader/stage/target.go", "		bytes += int64(t.ByteWidth)\n", "		bytes += int64(t.ByteWidth) / 100\n", stages},
		{"structs-of-nulls-are-not-charged", "loader/stage/target.go", "			bytes += valueBytes(f.Type)\n", "			bytes = valueBytes(f.Type) / 100\n", stages},
		{"early-tokens-are-staged", "loader/stage/stage.go", "commit.CheckToken(c.request.Token, c.options.Clock())", "commit.CheckToken(c.request.Token, c.options.Clock().AddDate(9, 0, 0))", stages},
		{"new-columns-are-named-like-partitions", "loader/stage/match.go", "		if m.partitioned(f.Name) {\n", "		if m.partitioned(\"\") {\n", stages},
		{"write-defaults-are-null", "loader/stage/match.go", "slices.Contains(m.target.state.WriteDefaults, f.ID):", "slices.Contains(m.target.state.WriteDefaults[:0], f.ID):", stages},
		{"replacements-miss-others-files", "loader/stage/replace.go", "baseOf(c.target.state), true\n", "baseOf(c.target.state), false\n", stages},
		{"moved-branches-are-changed", "loader/catalog/icebergcat/commit.go", "p.change.Unmoved && idOf(head) != p.change.Base {", "p.change.Unmoved && idOf(head) == 0 {", stages},
	}
}
