package main

// rowsMutants are ways to decide wrongly what a cursor or a ticket depends on.
func rowsMutants() []mutant {
	loader, plan, flight, data := []string{"./loader"}, []string{"./loader/plan", "./loader"}, []string{"./flight"}, []string{"./loader/dataset", "./loader/dataset/decode"}
	const bound, identity = "loader/plan/bound.go", "loader/plan/identity.go"
	return []mutant{
		{"left-entries-decide-rows", bound, "	return b.Relation.Staging[entry].Counted(", "	return entry >= 0 || b.Relation.Staging[entry].Counted(", loader},
		{"entries-that-drop-rows-decide-none", "loader/resolve/needed.go", "	return asked || !s.Join.KeepsAll() || s.D", "	return asked || s.D", plan},
		{"entries-that-repeat-rows-decide-none", "loader/resolve/needed.go", "s.Join.KeepsAll() || s.Duplicates.Multiply()", "s.Join.KeepsAll()", loader},
		{"filters-on-entries-decide-nothing", bound, ".Counted(resolve.Asks(b.PostJoinColumns, entry))", ".Counted(false)", loader},
		{"pins-of-left-entries-are-in-the-id", identity, "		if p.decides(i) {\n", "		if p.decides(i) || i >= 0 {\n", plan},
		{"pins-of-deciding-entries-are-not", identity, "		if p.decides(i) {\n", "		if p.decides(i) && i < 0 {\n", plan},
		{"tickets-do-not-cover-files", "flight/get.go", "	if p.ID != c.Plan || p.FilesID != c.Files {\n", "	if p.ID != c.Plan {\n", flight},
		{"file-groups-are-in-no-id", identity, "		out.FileGroups = append(out.FileGroups, groups)\n", "", plan},
		{"groups-of-splits-are-in-no-id", identity, "		out.Groups = append(out.Groups, split.Groups)\n", "		_ = split.Groups\n", plan},
		{"tables-that-one-pin-has-differ", "loader/plan/cursor.go", "	c.Pin.Staging, of.Pin.Staging = alsoIn(c.Pin.Staging, of.Pin.Staging), alsoIn(of.Pin.Staging, c.Pin.Staging)\n", "", loader},
		{"entries-that-a-cursor-lacks-cannot-be-pinned", "loader/dataset/canonical.go", "q.Pin.within(q.Cursor[0].Pin)", "q.Pin.Agrees(q.Cursor[0].Pin)", data},
		{"digests-forget-requests", "loader/dataset/rows.go", "	}{r.form(), r.Pin, r.Requests}))\n", "	}{r.form(), r.Pin, false}))\n", data},
		{"digests-forget-pins", "loader/dataset/rows.go", "	}{r.form(), r.Pin, r.Requests}))\n", "	}{r.form(), Pin{}, r.Requests}))\n", data},
	}
}
