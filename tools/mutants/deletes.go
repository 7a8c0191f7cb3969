package main

// deleteMutants are ways to read rows that are deleted, or to lose rows that are not.
func deleteMutants() []mutant {
	catalog, scan, worlds := []string{"./loader/catalog"}, []string{"./loader/scan"}, []string{"./internal/scenario/warehouse"}
	deletes, plan := []string{"./loader/deletes"}, []string{"./loader/plan"}
	const index, rows, values = "loader/catalog/delete_index.go", "loader/deletes/rows.go", "loader/deletes/values.go"
	return []mutant{
		{"vectors-are-ignored", "loader/deletes/pool.go", "	if d.Vector != nil {\n		out = append(out, unit{file: d.Vector})\n	}\n", "", scan},
		{"position-deletes-are-ignored", "loader/deletes/pool.go", "	for _, f := range d.Positions {\n		out = append(out, unit{file: f})\n	}\n", "", scan},
		{"equality-deletes-are-ignored", "loader/deletes/pool.go", "	for _, g := range d.Equality {\n		out = append(out, unit{group: g})\n	}\n", "", scan},
		{"one-position-file-is-enough", "loader/deletes/pool.go", "	for _, f := range d.Positions {\n		out", "	for _, f := range d.Positions[:min(1, len(d.Positions))] {\n		out", scan},
		{"delete-manifests-are-ignored", "loader/catalog/icebergcat/files.go", "		return l.deletes(entries)\n", "		return found{}, nil\n", worlds},
		{"own-snapshots-positions-do-not-count", index, "return files[i].Sequence >= sequence }", "return files[i].Sequence > sequence }", catalog},
		{"own-snapshots-equality-counts", "loader/catalog/deletes.go", "g.Files[i].Sequence > sequence", "g.Files[i].Sequence >= sequence", catalog},
		{"younger-rows-are-deleted", rows, "!deleted || youngest <= r.file.Sequence", "!deleted || youngest < r.file.Sequence", scan},
		{"any-age-is-deleted", rows, "!deleted || youngest <= r.file.Sequence", "!deleted || youngest < 0", scan},
		{"the-oldest-delete-counts", values, "		case known < sequence:\n", "		case known < sequence && len(key) == 0:\n", scan},
		{"equality-is-always-global", index, `in, global := "", len(x.table.Specs[d.Spec]) == 0`, `in, global := "", true`, catalog},
		{"equality-is-never-global", index, `in, global := "", len(x.table.Specs[d.Spec]) == 0`, `in, global := "", false`, catalog},
		{"scopes-forget-their-spec", index, `fmt.Appendf(nil, "%d\n", spec)`, `fmt.Appendf(nil, "%d\n", 0*spec)`, catalog},
		{"positions-count-beside-a-vector", index, "	} else {\n		out.Positions = joined(", "	}\n	{\n		out.Positions = joined(", catalog},
		{"named-positions-are-of-the-partition", index, `			if d.Data != "" {`, `			if false {`, catalog},
		{"groups-are-of-any-columns", index, `		key = fmt.Appendf(key, "%d ", c.ID)`, `		key = fmt.Appendf(key, "%d ", 0*c.ID)`, catalog},
		{"cut-bounds-name-a-file", "loader/catalog/icebergcat/deletes.go", "		if !cut {", "		if !cut || exact == exact {", worlds},
		{"nulls-are-not-equal", values, "			dst = append(dst, 0)\n			continue\n", "			dst = append(dst, 0, byte(row))\n			continue\n", scan},
		{"null-is-zero", values, "			dst = append(dst, 0)\n			continue\n", "			continue\n", deletes},
		{"dropped-columns-are-not-compared", "loader/scan/projection.go", "				p.read, p.ids = append(p.read, c), append(p.ids, c.ID)\n			}", "				c.ID = 1\n				p.read, p.ids = append(p.read, c), append(p.ids, g.Columns[0].ID)\n			}", scan},
		{"dropped-columns-take-a-name", "loader/scan/projection.go", `			if _, ok := source.Table.ByID(c.ID); !ok {`, `			if false {`, scan},
		{"dropped-columns-are-null-without-ids", "loader/scan/open.go", "		if _, ok := t.ByID(c.ID); !ok {", "		if _, ok := t.ByID(c.ID); !ok && len(p.read) == 0 {", scan},
		{"dropped-columns-forget-their-default", "loader/catalog/icebergcat/deletes.go", "		if dropped && f.InitialDefault != nil {", "		if dropped && f.InitialDefault != nil && id == 0 {", []string{"./loader/catalog/icebergcat"}},
		{"vectors-of-one-blob-are-one", "loader/deletes/pool.go", ", data: f.Data,", ",", scan},
		{"deletes-load-together", "loader/deletes/pool.go", "		if fault.KindOf(err) != fault.Exhausted || none != nil || n == limit {", "		if fault.KindOf(err) != fault.Exhausted || none != nil || n > 0 {", scan},
		{"positions-are-of-the-batch", "loader/scan/walk.go", "of.deleted.Keep(w.pass, w.pass, of.first, b.NumRows()", "of.deleted.Keep(w.pass, w.pass, 0, b.NumRows()", scan},
		{"vectors-need-no-checksum", "loader/deletes/vector.go", "got != crc {", "got != crc && len(blob) == 0 {", scan},
		{"vectors-need-no-count", "loader/deletes/vector.go", "set.count() != d.Rows", "set.count() < d.Rows", scan},
		{"positions-may-lie-behind", rows, "last >= r.file.Rows", "last > r.file.Rows", scan},
		{"delete-files-may-lack-columns", "loader/scan/open.go", "	case source.Complete:", "	case source.Complete && c.Required:", scan},
		{"equality-deletes-are-free", values, "			if err := held.GrowWait(ctx, n); err != nil {", "			if err := held.GrowWait(ctx, 0*n); err != nil {", scan},
		{"deletes-are-loaded-anew", "loader/deletes/pool.go", "				needs = append(needs, p.shared.Need(u.key(t)))\n", "				needs = append(needs, p.shared.Need(u.key(t)+\" \"))\n", scan},
		{"vectors-do-not-make-a-plan-inexact", "loader/plan/deletes.go", `	if p.Inexact == "" && len(uses) > 0 {`, `	if p.Inexact == "" && len(uses) > 0 && p.Deleted == 0 {`, plan},
		{"vectors-count-once-a-split", "loader/plan/deletes.go", "			if f.From > 0 {\n				continue", "			if f.From < 0 {\n				continue", plan},
		{"any-deletes-are-counted", "loader/plan/deletes.go", "len(uses) == 1 && uses[0].kind == catalog.DeletionVector", "uses[0].files > 0", plan},
		{"splits-forget-their-deletes", "loader/plan/build.go", "		text = names.append(text, f.File)\n", "", plan},
	}
}
