package main

// sinceMutants are ways to give other rows than those that were appended since a
// snapshot.
func sinceMutants() []mutant {
	catalog, loader := []string{"./loader/catalog/..."}, []string{"./loader"}
	since, core := "loader/catalog/icebergcat/since.go", "loader/catalog/since.go"
	return []mutant{
		{"since-is-inclusive", core, "	slices.Reverse(after)\n	return after, nil", "	slices.Reverse(after)\n	return append([]int64{since}, after...), nil", catalog},
		{"since-leaves-out-the-pin", core, "	for at := pinned; at != since; {\n		above, known := parent(at)\n		if !known {\n			return nil, ExpiredSince(table, at, since)\n		}\n		after, seen[at] = append(after, at), true\n", "	for at := pinned; at != since; {\n		above, known := parent(at)\n		if !known {\n			return nil, ExpiredSince(table, at, since)\n		}\n		if seen[at] = true; at != pinned {\n			after = append(after, at)\n		}\n", catalog},
		{"any-since-is-an-ancestor", core, "			return nil, apart(table, since, after, parent)\n", "			break\n", catalog},
		{"a-gap-is-the-beginning", core, "		if !known {\n			return nil, ExpiredSince(table, at, since)\n		}\n", "		if !known {\n			break\n		}\n", catalog},
		{"overwrites-append", since, "	case catalog.OpOverwrite, catalog.OpDelete:\n		if c.added != 0 {\n", "	case catalog.OpOverwrite, catalog.OpDelete:\n		if c.added < 0 {\n", catalog},
		{"replaces-may-add", since, "		if c.added != 0 && c.removed == 0 {\n", "		if c.added < 0 {\n", catalog},
		{"unknown-operations-do-nothing", since, "		return \"did what is not known\"\n", "		return \"\"\n", catalog},
		{"what-is-lost-is-not-missed", since, "c.operation == catalog.OpAppend && c.listed != c.added", "c.operation == catalog.OpAppend && c.listed > c.added", catalog},
		{"replaced-files-are-new", since, "if by == nil || by.operation != catalog.OpAppend {", "if by == nil {", catalog},
		{"the-oldest-offender-is-named", since, "	for _, c := range slices.Backward(l.commits.all) {\n", "	for _, c := range l.commits.all {\n", catalog},
		{"merged-manifests-are-passed-by", since, "c.byID[m.SnapshotID()] == nil\n", "c.byID[m.SnapshotID()] == nil || c != nil && m.ExistingDataFiles() > 0\n", catalog},
		{"an-expired-chain-is-corrupt", "loader/catalog/icebergcat/files.go", "		if _, again = l.commits.after(meta); again != nil {\n", "		if _, again = l.commits.after(l.meta); again != nil {\n", catalog},
		{"since-is-not-of-the-plan", "loader/plan/identity.go", "	rows := p.Rows\n	rows.Pin.Staging", "	rows := p.Rows\n	rows.Since = 0\n	rows.Pin.Staging", []string{"./loader/plan"}},
		{"plans-of-any-since-are-one", "loader/plans.go", "	rows.Dataset, rows.Inline, rows.Pin = r.Dataset.Digest(), nil, r.Pin()\n", "	rows.Dataset, rows.Inline, rows.Pin, rows.Since = r.Dataset.Digest(), nil, r.Pin(), 0\n", loader},
		{"since-is-forgotten", "loader/plan/bound.go", "	b.Rows.Inline, b.Rows.Pin = nil, r.Pin()\n", "	b.Rows.Inline, b.Rows.Pin, b.Rows.Since = nil, r.Pin(), 0\n", loader},
		{"cursors-forget-since", "loader/dataset/rows.go", "Since: other(r.Since, 0), ", "", loader},
		{"a-cursors-since-is-not-taken", "loader/dataset/rows.go", "	r.Since = cmp.Or(r.Since, c.Since)\n", "", []string{"./loader/dataset", "./loader/dataset/decode"}},
		{"verify-asks-about-older-files", "loader/verify/verify.go", "	if v.plan.Rows.Since == 0 {\n", "	if v.plan.Rows.Since >= 0 {\n", []string{"./loader/verify"}},
	}
}
