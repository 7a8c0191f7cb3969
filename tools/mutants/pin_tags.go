package main

// pinTagMutants let pinned snapshots expire, leave tags behind for ever, write where nothing
// is to be written, or write over what others wrote.
func pinTagMutants() []mutant {
	iceberg, tags := []string{"./loader/catalog/icebergcat", "-run=Tag|MetadataStays|MetadataIsPacked|Contradicts"}, []string{"./loader/catalog/pintag"}
	loader, command := []string{"./loader", "-run=Hold"}, []string{"./cmd/penstock", "-run=PinTags|Tags|Streams"}
	sql, rest := []string{"./loader/catalog/sqlcat", "-run=Swap"}, []string{"./loader/catalog/restcat", "-run=Tag|Commits"}
	const tag, text, held = "loader/catalog/icebergcat/tag.go", "loader/catalog/icebergcat/tagged.go", "loader/catalog/pintag/pintag.go"
	return []mutant{
		{"ages-count-from-the-tag", tag, "until.Wanted.Sub(time.UnixMilli(snapshot.TimestampMs))", "until.Wanted.Sub(c.now())", iceberg},
		{"ages-are-rounded-down", tag, " + time.Millisecond - 1)", ")", iceberg},
		{"tags-that-hold-are-set-again", tag, "!ends.Before(until.Least)", "ends.After(until.Wanted)", iceberg},
		{"tags-that-end-are-left", tag, "!ends.Before(until.Least)", "!ends.IsZero()", iceberg},
		{"foreign-tags-are-taken", tag, "if ref.SnapshotID != tag.Snapshot || ref", "if ref.SnapshotID < 0 || ref", iceberg},
		{"branches-are-tags", tag, " || ref.SnapshotRefType != icetable.TagRef {", " {", iceberg},
		{"lost-commits-leave-files", tag, "outcome == locator.Lost || outcome == locator.Refused", "outcome == locator.Refused", iceberg},
		{"refused-commits-leave-files", tag, "outcome == locator.Lost || outcome == locator.Refused", "outcome == locator.Lost", command},
		{"lost-races-are-not-tried-again", tag, "	maxTagTries = 8\n", "	maxTagTries = 1\n", iceberg},
		{"writing-metadata-is-free", tag, "const rewriteCopies = 3", "const rewriteCopies = 0", iceberg},
		{"main-is-lost", text, "current != nil && find(refs, icetable.MainBranch) == nil", "current == nil && find(refs, icetable.MainBranch) == nil", iceberg},
		{"the-log-is-lost", text, "	log = append(log, fmt.Appendf(", "	log = append(log[:0], fmt.Appendf(", iceberg},
		{"metadata-may-say-things-twice", text, "		if seen[m.name] {\n", "		if seen[m.name] && m.name == \"\" {\n", iceberg},
		{"packed-metadata-is-unpacked", "loader/catalog/icebergcat/metafile/text.go", "	switch compressionOf(location) {\n	case gzipped:\n", "	switch compressionOf(location) {\n	case gzipped - 4:\n", iceberg},
		{"swaps-have-no-condition", "loader/catalog/sqlcat/swap.go", "table_name = %s AND metadata_location = %s`", "table_name = %s OR metadata_location = %s`", sql},
		{"lost-swaps-are-won", "loader/catalog/sqlcat/swap.go", "	if err != nil || rows == 0 {\n", "	if err != nil || rows < 0 {\n", sql},
		{"refs-have-no-condition", "loader/catalog/restcat/commit.go", "	if tag.There {\n", "	if !tag.There {\n", rest},
		{"conflicts-are-refusals", "loader/catalog/restcat/commit.go", "	case status == http.StatusConflict, status", "	case status", rest},
		{"unknown-commits-are-refusals", "loader/catalog/restcat/commit.go", "	case status == 0 || reply{status: status}.passes():\n", "	case status == 0:\n", rest},
		{"tags-are-not-set-anew", held, "now.Add(keep/lookPart*renewTimes), now.Add(keep))", "now, now.Add(keep))", tags},
		{"tags-are-never-looked-at-again", held, "!one.due.IsZero() && !now.Before(one.due)", "one.due.IsZero() && !now.Before(one.due)", tags},
		{"each-holder-commits", held, "	if running := one.look; running != nil {\n", "	if running := one.look; running != nil && renewal {\n", tags},
		{"who-leaves-fails-the-others", held, "			if running.abandoned {\n", "			if running.abandoned && running.err == nil {\n", tags},
		{"old-looks-are-believed", held, "now.Before(one.looked.Add(keep/lookPart)) && ", "", tags},
		{"failed-looks-are-made-at-once", held, "			one.due = now.Add(t.backOff(one.failed))\n", "", tags},
		{"streams-hold-nothing", "loader/open.go", "\t\theld, err = l.hold(ctx, p.Plan, p.added)\n", "\t\theld, err = nil, nil\n", loader},
		{"staging-tables-are-not-held", "loader/open.go", "\tfor i, s := range own {\n", "\tfor i, s := range own[:0] {\n", loader},
		{"holds-never-end", "loader/stream/stream.go", "	s.held.Release()\n", "", loader},
		{"failed-holds-are-kept", "loader/open.go", "	if err != nil {\n		all.Release()\n", "	if err != nil {\n", loader},
		{"all-catalogs-are-tagged", "cmd/penstock/pins.go", "	if o.PinTags == 0 {\n", "	if o.PinTags < 0 {\n", command},
		{"folders-take-tags", "cmd/penstock/pins.go", "	if err := one.Tags(); err != nil {\n", "	if err := one.Tags(); err == nil {\n", command},
	}
}
