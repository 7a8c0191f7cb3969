package main

// branchMutants move, begin and take back branches wrongly, and stage columns and partitions that others cannot read.
func branchMutants() []mutant {
	tables := []string{"./loader/catalog/icebergcat"}
	return []mutant{
		{"branches-begin-anywhere", "loader/catalog/icebergcat/commit.go", "	return head, 0, nil\n", "	return head, idOf(head), nil\n", tables},
		{"branches-begin-again", "loader/catalog/icebergcat/commit.go", "p.change.Begin == 0 || fault.KindOf(err) != fault.NotFound", "p.change.Begin == 0", tables},
		{"main-begins-anywhere", "loader/catalog/commit/check.go", "c.Begin != 0 && (c.Branch ==", "c.Begin < 0 && (c.Branch ==", []string{"./loader/catalog/commit"}},
		{"stage-begins-no-branch", "loader/stage/stage.go", "		change.Begin = c.target.state.Table.Pin.Snapshot\n", "		change.Begin = 0\n", []string{"./loader/stage"}},
		{"undo-goes-anywhere", "loader/catalog/icebergcat/branch.go", "		if err := m.leads(made); err != nil {\n", "		if err := m.leads(made); err != nil && made.To < 0 {\n", tables},
		{"undo-empties-any-table", "loader/catalog/icebergcat/branch.go", "	if made.From == 0 && (to.ParentSnapshotID == nil || made.Ref != commit.Main) {\n", "	if made.From == 0 {\n", tables},
		{"undo-leaves-a-current-snapshot", "loader/catalog/icebergcat/revision.go", "		object = set(object, \"current-snapshot-id\", noCurrent(m.Version()))\n", "", tables},
		{"stage-takes-back-to-the-parent", "cmd/penstock/stage.go", "	if r.Branched {\n", "	if r.Branched && r.Parent == 0 {\n", []string{"./cmd/penstock"}},
		{"new-columns-differ-in-case", "loader/stage/match.go", "if other != name && strings.EqualFold(other, name) {", "if other != name && strings.HasPrefix(other, name) {", []string{"./loader/stage"}},
		{"evolved-columns-differ-in-case", "loader/stage/match.go", "append(m.target.state.Table.Names(), fieldNames(m.schema.Fields())...)", "fieldNames(m.schema.Fields())", []string{"./loader/stage"}},
		{"nested-fields-differ-in-case", "loader/stage/field_numbers.go", "alike(name, fieldNames(in.Fields())); other != \"\"", "alike(name, nil); other != \"\"", []string{"./loader/stage"}},
		{"two-partitions-of-a-fixed-length", "loader/stage/fixed_lengths.go", "	l[kind] = name\n", "", []string{"./loader/stage"}},
		{"uuids-are-any-16-bytes", "loader/stage/create.go", "		if column.Type == uuidType {\n", "		if column.Type == \"\" {\n", []string{"./loader/stage"}},
		{"zeros-exclude-each-other", "loader/catalog/icebergcat/manifests/write.go", "			withSign(p.LowerBound, true)\n", "", []string{"./loader/catalog/icebergcat/manifests"}},
		{"bounds-lose-their-sign", "loader/catalog/icebergcat/manifests/write.go", "return b != 0 }) {\n		return\n", "return b != 0 }) {\n		*bound = zero\n		return\n", []string{"./loader/catalog/icebergcat/manifests"}},
		{"catalog-references-are-written-to", "loader/catalog/icebergcat/writing.go", "strings.ContainsAny(name, refMarks)", "strings.ContainsAny(name, refMarks[1:])", tables},
		{"reloads-fail-calls", "flight/service.go", "try == maxPlanned || ", "try == 1 || ", []string{"./flight"}},
		{"queries-keep-their-first-rights", "flight/service.go", "		p, err := s.planWithin(ctx, may, query)\n		if", "		may.digest = \"\"\n		p, err := s.planWithin(ctx, may, query)\n		if", []string{"./flight"}},
		{"silent-catalogs-are-asked-again", "loader/catalog/icebergcat/load.go", "	if !known && err == nil {\n", "	if !known {\n", tables},
	}
}
