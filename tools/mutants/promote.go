package main

// promoteMutants give rows of the training table values of others, lose deletes, or change the schema too early.
func promoteMutants() []mutant {
	promotes, files := []string{"./loader/promote"}, []string{"./internal/parquet/rewrite"}
	return []mutant{
		{"promote-skips-deleted-rows", "loader/promote/values.go", "			f.Deletes = catalog.Deletes{}\n", "", promotes},
		{"promote-takes-all-files-for-done", "loader/promote/name.go", "strings.HasPrefix(name, prefix+\"-\")", "strings.HasPrefix(name, \"penstock-\")", promotes},
		{"promote-makes-rows-young", "loader/promote/described.go", "	out := old\n", "	out := old\n	out.Sequence = 0\n", promotes},
		{"promote-makes-new-row-ids", "loader/promote/described.go", "	out := old\n", "	out := old\n	out.FirstRow = nil\n", promotes},
		{"promote-ends-too-early", "loader/promote/finish.go", "		move.Head = p.state.Table.Pin.Snapshot\n", "		move.Head = 0\n", promotes},
		{"promote-compares-nothing", "loader/promote/finish.go", "		if !array.ApproxEqual(", "		if c.name == \"\" && !array.ApproxEqual(", promotes},
		{"promote-ignores-few-matches", "loader/promote/finish.go", "float64(of.Matched) < s.MinMatch*float64(of.Rows)", "float64(of.Rows) < s.MinMatch*float64(of.Matched)", promotes},
		{"promote-mixes-snapshots", "loader/promote/reserved.go", "		if p.isOf(e, current) {\n", "		if !p.isOf(e, current) {\n			return current, current.numberAs(e, p.state)\n		}\n		if p.isOf(e, current) {\n", promotes},
		{"promote-removes-uncertain-files", "loader/promote/replace.go", "			return err // the files may be the table's\n", "			break\n", promotes},
		{"promote-keeps-files-of-failures", "loader/promote/write.go", "		discard(ctx, files, w.tried)\n", "", promotes},
		{"promote-loses-deletes", "loader/promote/repoint.go", "	out.AddDeletes, out.RemoveDeletes = deletes.Add, deletes.Remove\n", "	out.RemoveDeletes = deletes.Remove\n", promotes},
		{"promote-takes-inner-joins", "loader/promote/definition.go", "	case !s.Join.Fills():\n", "	case !s.Join.Adds():\n", promotes},
		{"promote-takes-repeated-rows", "loader/promote/definition.go", "	case s.Duplicates.Multiply():\n", "	case s.Duplicates.Multiply() && s.Name == \"\":\n", promotes},
		{"promote-forgets-earlier-overlays", "loader/dataset/promoted.go", "		case !is:\n			stays = s.Name\n", "		case !is:\n			stays = \"\"\n", promotes},
		{"promote-takes-branches", "loader/dataset/promoted.go", "	if d.Training.Ref != (Ref{}) {\n", "	if d.Training.Ref.Snapshot != 0 {\n", promotes},
		{"demote-leaves-names", "loader/promote/demote.go", "		edit.Rename[o.Replaces], out.Restored = o.Name, append(out.Restored, o.Name)\n", "		out.Restored = append(out.Restored, o.Name)\n", promotes},
		{"demote-drops-nothing", "loader/promote/demote.go", "		edit.Drop, out.Dropped = append(edit.Drop, f.ID), append(out.Dropped, f.Name)\n", "		out.Dropped = append(out.Dropped, f.Name)\n", promotes},
		{"promote-begins-again-under-the-same-name", "loader/promote/reserved.go", "			d.attempt = max(d.attempt, e.attempt()+1)\n", "", promotes},
		{"promote-keeps-bounds-of-other-values", "loader/promote/described.go", "return made })", "return made && false })", promotes},
		{"rewritten-columns-share-ids", "internal/parquet/rewrite/mapping.go", "		if e.FieldID == nil || !added[*e.FieldID] {\n", "		if e.FieldID == nil || added[*e.FieldID] {\n", files},
		{"promote-fails-beside-itself", "loader/promote/promote.go", "		if p.madeBefore(p.definition) { // another", "		if p.definition == nil { // another", promotes},
		{"dots-make-paths", "internal/parquet/rewrite/mapping.go", "const pathSeparator = \"\\x00\"", "const pathSeparator = \".\"", files},
		{"demote-drops-the-only-column", "loader/promote/demote.go", "return old.ID == o.Replaces })", "return old.ID != o.Replaces })", promotes},
		{"mapped-columns-share-ids", "internal/parquet/rewrite/mapping.go", "		m.next++\n", "", files},
		{"mapped-ids-are-not-compared", "internal/parquet/rewrite/mapping.go", "		if other, twice := seen[id]; twice {\n", "		if other, twice := seen[id]; twice && id < 0 {\n", files},
		{"taken-names-are-written-twice", "internal/parquet/rewrite/mapping.go", "ok && b.hasName(fields[i].Name)", "ok && b.hasName(\"\")", files},
	}
}
