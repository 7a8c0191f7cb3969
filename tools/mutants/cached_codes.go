package main

// cachedCodeMutants are ways in which cached codes have other values, take more memory than they should, or free room is filled at the
// cost of what is kept.
func cachedCodeMutants() []mutant {
	const codes, unit, view, fill, disk, evict, scan = "loader/scan/chunkcache/codes.go", "loader/scan/chunkcache/unit.go", "loader/scan/chunkcache/view.go", "loader/scan/chunkcache/fill.go", "loader/scan/chunkcache/disk.go", "loader/scan/chunkcache/evict.go", "loader/scan/cached.go"
	texts := []string{"-timeout", "60s", "-run", "Codes|Texts|Form|Dictionar", "./loader/scan/chunkcache"}
	spare := []string{"-timeout", "60s", "-run", "Spare", "./loader/scan/chunkcache"}
	scanned := []string{"-timeout", "120s", "-run", "Codes|Spare|TestCachedColumnsGiveTheSame", "./loader/scan"}
	drops := []string{"-timeout", "60s", "-run", "Drop", "./cache/disk"}
	return []mutant{
		{"codes-begin-at-once", codes, "codes.NullN(), of.Offset(), values)", "codes.NullN(), 0*of.Offset(), values)", texts},
		{"each-part-has-a-dictionary", codes, "if f.ended = !f.isCurrent(); f.ended || u.content.dictionary != nil {", "if f.ended = !f.isCurrent(); f.ended {", texts},
		{"any-dictionary-is-the-same", codes, "case !array.Equal(s.array, values):", "case s.array == nil:", texts},
		{"damaged-dictionaries-stay", codes, "	if f.ended = true; f.unit.pins == 0 {\n", "	if f.ended = true; f.unit.pins > 0 {\n", texts},
		{"dictionaries-are-not-counted", codes, "	c.count(u, s.tally, tally{})\n	s.kept", "	s.kept", texts},
		{"dictionaries-are-in-use", codes, "	e.idle += s.bytes\n", "", texts},
		{"dictionaries-of-dropped-columns-stay-charged", unit, "		all = append(all, u.content.dictionary)\n", "", texts},
		{"dictionaries-are-copied-without-room", codes, "	if !f.hasRoom(sizeOf(values)) {\n		return\n	}\n", "", texts},
		{"each-array-from-the-cache-has-a-dictionary", view, "if s.coded && p.codes == nil {", "if s.coded {", texts},
		{"views-of-dictionaries-stay", view, "		p.codes.Release()\n", "", texts},
		{"forms-are-joined", view, "p.spans[i].segment.coded == p.spans[0].segment.coded; i++", "i > 0; i++", texts},
		{"the-disk-gets-both-forms", disk, "	if u.mixed() {\n", "	if u.mixed() && u.rows < 0 {\n", texts},
		{"codes-on-disk-have-any-dictionary", codes, "if i > 0 && of != dictionary {", "if i < 0 && of != dictionary {", texts},
		{"missing-rows-have-dictionaries", unit, "float64(t.bytes-t.fixed) * float64(rows)", "float64(t.bytes) * float64(rows)", texts},
		{"codes-are-found-by-those-that-need-texts", scan, "			c.columns[i].Type += orCodes\n", "", scanned},
		{"codes-are-found-without-being-asked-for", scan, "slices.Contains(w.coded(), f.ID)", "slices.Contains(w.plan.coded, f.ID)", scanned},
		{"copies-of-dictionaries-are-free", scan, "	held.Share()\n	return out, held\n", "	held.Shrink(held.Held())\n	return out, held\n", scanned},

		{"spare-columns-push-out-others", fill, "if u.spare && c.hasSpare(bytes) || !u.spare && c.makeRoom(bytes, rate, e) {", "if c.makeRoom(bytes, rate, e) {", spare},
		{"spare-columns-need-no-plenty", evict, " && b.Plentiful() && ", " && ", spare},
		{"spare-columns-take-what-is-kept", evict, " && (limit < 0 || b.Used()+max(bytes, 0) <= limit)", " && limit != 0", spare},
		{"spare-columns-stay-as-others", fill, "			u.priority = 0\n", "", spare},
		{"spare-columns-that-are-filled-stay", evict, "		if u.spare && u.pins == 0 {\n", "		if u.spare && u.pins < 0 {\n", spare},
		{"spare-columns-count-as-passed", fill, "	if !u.spare {\n		c.pass(", "	if u.rows > 0 {\n		c.pass(", spare},
		{"spare-columns-go-to-disk", fill, "if filled && !u.spare && f.isCurrent()", "if filled && f.isCurrent()", spare},
		{"spare-columns-that-are-read-stay-spare", "loader/scan/chunkcache/cache.go", "	if u.spare && used {\n", "	if u.spare && used && u.rows < 0 {\n", spare},
		{"spare-columns-are-read-by-a-pin", "loader/scan/chunkcache/cache.go", "	if u.spare && used {\n", "	if u.spare {\n", spare},
		{"spare-columns-forget-their-first-reading", fill, "		if !u.spare { // otherwise", "		if u.rows > 0 { // otherwise", spare},
		{"second-readings-stay-spare", fill, "	if known && u.spare {\n", "	if known && u.spare && u.rows < 0 {\n", spare},
		{"spare-scans-fill-nothing", scan, "Repeated: c.repeated, Spare: c.spare})", "Repeated: c.repeated})", scanned},
		{"build-sides-fill-no-spare-room", "loader/buildside/build.go", "coded.Coded, coded.Spare = g.input.Coded, g.pool.options.Keep > 0", "coded.Coded, coded.Spare = g.input.Coded, g.pool.options.Keep < 0", []string{"-timeout", "60s", "-run", "Spare", "./loader/buildside"}},

		{"drops-delete-other-tables", "cache/disk/drop.go", "		if uuids[of] {\n", "		if of != \"\" {\n", drops},
		{"columns-that-are-being-written-survive-drops", "cache/disk/drop.go", "	t.queue.condemn(match)\n", "", drops},
		{"columns-that-wait-survive-drops", "cache/disk/put.go", "		if !match(o) {\n", "		if !match(o) || o.Cost == 0 {\n", drops},
		{"drops-count-as-reads", "cache/disk/drop.go", "		t.ledger.closeUnread(f)\n", "		t.ledger.close(f)\n", drops},
		{"drops-hide-a-disk-that-hangs", "cache/disk/drop.go", "	case t.hanging.Load() > before:\n", "	case t.hanging.Load() < before:\n", drops},
		{"drops-are-not-charged", "cache/disk/drop.go", "of the disk tier\", maxHead+firstRead)", "of the disk tier\", 0)", drops},
		{"tables-on-disk-need-a-name-in-memory", "cmd/penstock/kept.go", "	if missing == nil {\n		uuids", "	if missing != nil {\n		uuids", []string{"-timeout", "120s", "-run", "TestTablesAreDropped", "./cmd/penstock"}},
	}
}
