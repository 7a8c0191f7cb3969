package main

// cursorMutants are ways to take a cursor that was edited, or of another plan, to say of one
// that has ended what it did not give, to forget fields in texts, and to miss that a
// snapshot has expired.
func cursorMutants() []mutant {
	data, loader, flight, verify := []string{"./loader/dataset", "./loader/dataset/decode"}, []string{"./loader"}, []string{"./flight"}, []string{"./loader/verify"}
	canonical, cursor := "loader/dataset/canonical.go", "loader/dataset/decode/cursor.go"
	return []mutant{
		{"edited-cursors-pass", cursor, "	case sum != c.Checksum():\n", "	case sum == \"\":\n", data},
		{"cursors-without-a-checksum-pass", cursor, "	case sum == \"\":\n", "	case sum == \"none\":\n", data},
		{"the-checksum-hides-other-faults", cursor, "	case at.kind != kindObject || !d.sound(at.path):\n", "	case at.kind != kindObject:\n", data},
		{"checksums-are-of-the-text-at-hand", cursor, "	case sum != c.Checksum():\n", "	case sum != c.Checksum() || at.members[0].name != \"v\":\n", data},
		{"checksums-forget-counts", cursor, "	d.checkSum(at, out, sum)\n", "	if out.Counted == nil {\n		d.checkSum(at, out, sum)\n	}\n", data},
		{"checksums-forget-the-last-field", canonical, "	sum := sha256.Sum256(text)\n", "	sum := sha256.Sum256(text[:bytes.LastIndexByte(text, ',')])\n", data},
		{"checksums-are-shorter", canonical, "const sumDigits = 16\n", "const sumDigits = 8\n", data},
		{"a-cursors-algorithm-is-not-compared", "loader/dataset/differences.go", "	l.add(\"algorithm\", strconv.Itoa(a.Algorithm), strconv.Itoa(b.Algorithm))\n", "", loader},
		{"a-cursors-dataset-is-not-compared", "loader/dataset/rows.go", "		{\"dataset\", r.Dataset},\n", "", loader},
		{"a-cursors-window-is-not-compared", "loader/dataset/rows.go", "		{\"shuffle_window\", orNone(r.ShuffleWindow)},\n", "", loader},
		{"a-plans-id-stands-for-a-cursors-fields", "loader/plan/cursor.go", "	case len(differs) == 0:\n", "	case c.Plan == p.ID:\n", loader},
		{"cursors-of-two-runs-pass", "loader/plan/cursor.go", "	for i, c := range cursors[1:] {\n", "	for i, c := range cursors[:0] {\n", loader},
		{"a-partial-pin-differs-in-what-it-leaves-out", "loader/dataset/differences.go", "	if p.Whole() {\n		return p\n", "	if p.Whole() || p.Snapshot == 0 {\n		return p\n", data},
		{"ended-lanes-gave-full-steps", "loader/stream/step.go", "\tif s.ended(p.at) {\n", "\tif p.steps < 0 {\n", loader},
		{"ended-lanes-gave-what-the-shortest-did", "loader/stream/step.go", "return min(p.perLane, slices.Max(p.consumed))", "return slices.Min(p.consumed)", loader},
		{"queries-forget-their-limit", canonical, "Limit: r.Limit, ", "", data},
		{"queries-forget-their-wire", canonical, "Count: unless(r.Count, preset.Count), Wire: unless(r.Wire, preset.Wire),", "Count: unless(r.Count, preset.Count),", data},
		{"datasets-forget-a-tolerance", "loader/dataset/form.go", "		out.Tolerance = p.Tolerance.Count\n", "", data},
		{"datasets-forget-a-strategy", "loader/dataset/form.go", "Strategy: unless(s.strategy(), preset.strategy()), Max", "Max", data},
		{"datasets-forget-a-scope", "loader/dataset/form.go", ", Scope: by.Scope,\n", ",\n", data},
		{"tickets-forget-the-part", "flight/ticket.go", "`json:\"part,omitempty\"`", "`json:\"-\"`", flight},
		{"tickets-of-any-algorithm-are-planned", "flight/get.go", "	if c.Algorithm != plan.Algorithm {\n", "	if c.Algorithm < 0 {\n", flight},
		{"snapshots-expire-under-counts-as-damage", "loader/pinned.go", "	case fault.Expired, fault.NotFound:\n", "	case fault.NotFound:\n", loader},
		{"dropped-tables-are-findings", "loader/verify/verify.go", "	case kind != fault.Corrupt && kind != fault.Invalid:", "	case kind != fault.Corrupt && kind != fault.Invalid && kind != fault.NotFound:", verify},
	}
}
