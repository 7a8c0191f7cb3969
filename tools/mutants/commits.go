package main

// commitMutants lose what others committed, commit twice or in part, write where nothing may
// be written, or leave files behind.
func commitMutants() []mutant {
	of := func(tests string) []string { return []string{"./loader/catalog/icebergcat", "-run=" + tests} }
	allowed, tokens, files := of("Allowed|Folders/sqlite"), of("Token|SnapshotsAre|AppendAdds/sqlite"), of("ReplaceRewrites|ReplaceIs|Rewritten|ManifestsDescribe|AppendAdds/sqlite")
	accidents, branches, tables := of("Accident|MissingNew|RefusedCommits/sqlite"), of("Branches/sqlite"), of("TablesAre|ATable|TablesLie/sqlite")
	metadata, requests := of("ColumnsAre|UnknownMetadata|UnknownFields|Branches/sqlite"), of("UnknownMetadata|Branches|RefusedCommits/rest")
	values := []string{"./loader/catalog/commit"}
	const dir = "loader/catalog/icebergcat/"
	const try, prepare, removal, revision, writing = dir + "commit.go", dir + "prepare.go", dir + "removal.go", dir + "revision.go", dir + "writing.go"
	return []mutant{
		{"all-namespaces-are-written-to", writing, "	if slices.Contains(c.options.WriteNamespaces, namespace) {\n", "	if !slices.Contains(c.options.WriteNamespaces, \"\") {\n", allowed},
		{"folders-are-written-to", writing, "c.options.Type != typeDirectory {", "c.options.Type != \"\" {", allowed},
		{"tokens-are-not-looked-for", try, "		if s.Summary != nil && s.Summary.Properties[commit.SummaryToken] == p.change.Token {\n			p.found(s)\n", "		if s.Summary == nil {\n			p.found(s)\n", tokens},
		{"undone-tokens-are-committed-again", try, "	for _, s := range meta.Snapshots() {\n", "	for _, s := range meta.Snapshots()[:0] {\n", tokens},
		{"clocks-of-others-are-right", try, "		at = at.Add(commit.MaxBehind)\n", "", tokens},
		{"fresh-tokens-are-old", try, " || p.change.Fresh && !p.uncertain() {", " {", tokens},
		{"old-tokens-are-new", try, "err != nil || !cut || at.After(", "err != nil || cut || at.After(", tokens},
		{"tokens-of-the-oldest-snapshots-time-are-new", try, "at.After(latestForgotten(oldest))", "!at.Before(latestForgotten(oldest))", tokens},
		{"snapshots-are-older-than-their-tokens", prepare, "		out = max(out, at.UnixMilli())\n", "		out = max(out, 0*at.UnixMilli())\n", tokens},
		{"made-snapshots-are-not-found", try, "	if made := meta.SnapshotByID(p.id); made != nil {\n", "	if made := meta.SnapshotByID(0); made != nil {\n", accidents},
		{"recreated-tables-are-changed", dir + "branch.go", "move.UUID != \"\" && uuid != move.UUID", "move.UUID == \"\" && uuid != move.UUID", branches},
		{"files-of-lost-attempts-stay", writing, "a.settled || !a.sent || a.outcome == locator.Refused || head != a.parent)", "a.settled || !a.sent || a.outcome == locator.Refused)", accidents},
		{"files-of-made-commits-are-removed", try, "		if a.list == made.ManifestList {\n", "		if a.list != made.ManifestList {\n", tokens},
		{"new-files-are-not-read-back", writing, "	if err == nil && !bytes.Equal(there, content) {\n", "	if err == nil && bytes.Equal(there[:0], content) {\n", accidents},
		{"specs-share-a-manifest", prepare, "		bySpec[f.Spec] = append(bySpec[f.Spec], ", "		bySpec[s.meta.DefaultPartitionSpec()] = append(bySpec[s.meta.DefaultPartitionSpec()], ", files},
		{"sequence-numbers-stand-still", prepare, "meta.LastSequenceNumber() + 1}", "meta.LastSequenceNumber()}", files},
		{"row-ids-begin-anew", prepare, "s.new.FirstRow = meta.NextRowID()", "s.new.FirstRow = 0 * meta.NextRowID()", files},
		{"missing-files-are-no-conflict", dir + "removing.go", "append(slices.Sorted(maps.Keys(r.left)), ", "append(slices.Sorted(maps.Keys(r.left))[:0], ", files},
		{"new-deletes-are-no-conflict", removal, "before[location] != after[location]", "before[location] > after[location]+\"~\"", files},
		{"new-delete-manifests-are-not-looked-at", removal, "iceberg.ManifestContentDeletes && !known[m.FilePath()]", "iceberg.ManifestContentDeletes && known[m.FilePath()]", files},
		{"a-base-that-is-gone-is-believed", removal, "	if s.meta.SnapshotByID(s.change.Base) == nil {\n", "	if s.meta.SnapshotByID(s.change.Base) == nil && s.change.Base == 0 {\n", files},
		{"files-that-stay-are-new", dir + "manifests/write.go", "iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &from", "iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &from", files},
		{"removed-files-are-forgotten", dir + "manifests/write.go", "append(gone, iceberg.NewManifestEntry(iceberg.EntryStatusDELETED", "append(gone, iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING", files},
		{"the-age-of-rows-is-lost", dir + "manifests/write.go", "	if sequence > 0 && s.Version > 1 {\n", "	if sequence > 0 && s.Version < 1 {\n", files},
		{"other-refs-are-lost", revision, "	return written(set(refs, r.branch, ref))\n", "	return written(set(nil, r.branch, ref))\n", metadata},
		{"branches-become-main", revision, "	if r.branch == icetable.MainBranch && r.to != 0 {\n", "	if r.branch != \"\" {\n", branches},
		{"a-branchs-settings-are-lost", dir + "revision_request.go", "		if name != branch {\n", "		if name == branch {\n", requests},
		{"requests-have-no-condition", dir + "revision_request.go", "	if r.from != 0 {\n", "	if r.from == 0 {\n", requests},
		{"used-field-ids-are-used-again", dir + "columns_added.go", "	if i < 0 && column.ID > m.LastColumnID() {\n", "	if i < 0 {\n", metadata},
		{"moves-have-no-condition", dir + "branch.go", "	case at != move.From:\n", "	case at == move.To:\n", branches},
		{"publishing-drops-others-commits", dir + "branch.go", "if s.SnapshotID == main || main == 0 {", "if s.SnapshotID != 0 || main == 0 {", branches},
		{"two-names-have-one-folder", dir + "create.go", "return strings.Contains(part, \"/\") }) {", "return strings.Contains(part, \"//\") }) {", []string{"./loader/catalog/icebergcat"}},
		{"undoing-drops-others-commits", dir + "branch.go", "		if at != made.To && at != made.From {\n", "		if at == 0 {\n", branches},
		{"tables-are-created-twice", "loader/catalog/sqlcat/insert.go", "	if err != nil || rows == 0 {\n", "	if err != nil || rows < 0 {\n", tables},
		{"tables-lie-anywhere", dir + "create.go", "	if c.prefixes.Contain(location + \"/\") {\n", "	if location != \"\" {\n", tables},
		{"tokens-have-any-name", "loader/catalog/commit/token.go", "	return len(name) <= maxTokenName && ", "	return len(name) > 0 && ", values},
		{"early-tokens-are-accepted", "loader/catalog/commit/token.go", "!at.After(now.Add(MaxAhead))", "!at.Before(now.Add(MaxAhead).AddDate(-9, 0, 0))", values},
		{"foreign-metadata-is-owned", "loader/catalog/commit/name.go", "70656e73-746f-8[0-9a-f]{3}", "70656e73-746f-[0-9a-f]{4}", values},
	}
}
