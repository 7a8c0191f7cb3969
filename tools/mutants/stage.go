package main

// stageMutants stage rows twice or in part, to other columns, or drop what should stay.
func stageMutants() []mutant {
	stages, inputs, files := []string{"./loader/stage"}, []string{"./internal/parquet/records"}, []string{"./internal/parquet/write"}
	forms, sets := []string{"./internal/conform"}, []string{"./loader/keyset"}
	return []mutant{
		{"conform-null-lists-have-items", "internal/conform/fixed.go", "		if a.IsValid(row) {\n", "		if a.IsValid(row) || row >= 0 {\n", forms},
		{"conform-fixed-lists-begin-at-zero", "internal/conform/fixed.go", "	from, _ = a.ValueOffsets(0)\n", "	from = 0\n", forms},
		{"stage-keeps-all-keys", "loader/stage/stage.go", "		options.Keys = keys\n", "		options.Keys = nil\n", stages},
		{"stage-holds-keys-for-ever", "loader/stage/stage.go", "		defer keys.Release()\n", "", stages},
		{"stage-has-no-key-and-drops-all", "loader/stage/stage.go", "	if len(c.target.layout.Key) == 0 {\n", "	if len(c.target.layout.Key) < 0 {\n", stages},
		{"keys-of-lists-that-grow-are-lost", "loader/keyset/keyset.go", "	copy(words, l.words)\n", "	copy(words, l.words[:len(l.words)/2])\n", sets},
		{"keys-have-halves", "loader/keyset/keyset.go", "			return mixed(uint64(v)), scratch, nil\n", "			return mixed(uint64(v) >> 1), scratch, nil\n", sets},
		{"keys-pass-their-limit", "loader/keyset/keyset.go", "s.limit >= 0 && s.held.Held()+more > s.limit", "s.limit >= 0 && more > s.limit", sets},
		{"keys-are-not-given-back", "loader/keyset/keyset.go", "		defer s.held.Shrink(before)\n", "		_ = before\n", sets},
		{"keys-with-nulls-are-found", "loader/keyset/keyset.go", "		if found[row] = false; hasNull(columns, row) {\n			continue\n", "		if found[row] = false; hasNull(columns, row) {\n			found[row] = true\n			continue\n", sets},
		{"stage-partitions-by-buckets-alone", "loader/stage/layout.go", "	return append(out, buckets), nil\n", "	return append(out[:0], buckets), nil\n", stages},
		{"stage-truncates-by-nothing", "loader/stage/layout.go", "strconv.Atoi(parts[2]); err != nil || out.transform.N < 1", "strconv.Atoi(parts[2]); err != nil && out.transform.N > 1", stages},
		{"stage-takes-columns-of-other-types", "loader/stage/layout.go", "ok && sameShape(ours.Type, theirs.Type)", "ok && ours.Type != nil", stages},
		{"stage-takes-the-key-as-it-is", "loader/stage/layout.go", " || theirs.Name == bucketed {\n", " {\n", stages},
		{"stage-takes-beside-what-is-named", "loader/stage/layout.go", "		if len(out) == 0 {\n", "		if len(out) < 9 {\n", stages},
		{"stage-names-partitions-as-columns", "loader/stage/layout.go", "		name += \"_partition\"", "		break", stages},
		{"stage-partitions-a-column-twice", "loader/stage/layout.go", "return o.column == p.column })", "return o == p })", stages},
		{"stage-ignores-tokens", "loader/stage/stage.go", "	if made, err := c.made(ctx); made || err != nil {\n", "	if made, err := c.made(ctx); made && err != nil {\n", stages},
		{"stage-drops-uncertain-files", "loader/stage/stage.go", "	if err != nil && commit.Uncertain(err) {\n", "	if err != nil && made.Existed {\n", stages},
		{"stage-counts-rows-of-the-first", "loader/stage/stage.go", "	if r := &c.result; made.Existed {\n", "	if r := &c.result; made.Existed && r.Token == \"\" {\n", stages},
		{"stage-keeps-files-of-the-second", "loader/stage/stage.go", "	if err != nil || made.Existed {\n", "	if err != nil {\n", stages},
		{"stage-keeps-files-of-failures", "loader/stage/upload.go", "		u.discard(ctx)\n		return nil, err\n", "		return nil, err\n", stages},
		{"staged-fresh-tokens-expire", "loader/stage/stage.go", "kind == fault.Expired && c.fresh:", "kind == fault.Expired && c.fresh && made.Existed:", stages},
		{"staged-given-tokens-are-fresh", "loader/stage/stage.go", "fresh := request.Token == \"\"", "fresh := request.Token != \"-\"", stages},
		{"stage-gives-up-replacing", "loader/stage/replace.go", "maxReplaceTries = 64", "maxReplaceTries = 16", stages},
		{"stage-replaces-nothing", "loader/stage/replace.go", "			change.Mode = commit.Overwrite\n", "			change.Remove = nil\n", stages},
		{"stage-dry-runs-write", "loader/stage/stage.go", "	if err != nil || c.request.DryRun {\n", "	if err != nil {\n", stages},
		{"stage-writes-to-main", "loader/stage/stage.go", "Branch: c.request.Branch, Token", "Branch: commit.Main, Token", stages},
		{"stage-replaces-buckets-too", "loader/stage/replace.go", "	case catalog.Bucket, catalog.Truncate, catalog.Other:\n		return false\n", "	case catalog.Bucket, catalog.Truncate, catalog.Other:\n		return true\n", stages},
		{"stage-narrows-types", "loader/stage/match.go", "from.ID() == arrow.FLOAT32 && to.ID() == arrow.FLOAT64", "arrow.IsPrimitive(from.ID()) && to.ID() == arrow.FLOAT64", stages},
		{"stage-required-columns-are-null", "loader/stage/match.go", "	case len(at) == 0 && f.Required:\n", "	case len(at) > 0 && f.Required && f.Name == \"\":\n", stages},
		{"stage-drops-unknown-columns", "loader/stage/match.go", "		if !m.evolve {\n			m.faults", "		if !m.evolve {\n			continue\n		}\n		if !m.evolve {\n			m.faults", stages},
		{"stage-descends-never", "loader/stage/create.go", "Transform: catalog.Transform{Kind: catalog.Identity}, Descending: down", "Transform: catalog.Transform{Kind: catalog.Identity}, Descending: !down", stages},
		{"stage-declares-no-order", "loader/stage/target.go", "		t.ordered = t.state.SortOrder\n", "		t.ordered = 0\n", stages},
		{"stage-holds-large-samples", "loader/stage/partition_files.go", "PageRows: min(maxSampleRows, max(sample/rowBytes, 1))", "PageRows: min(maxSampleRows, max(sample*rowBytes, 1))", stages},
		{"stage-reads-the-first-file", "internal/parquet/records/records.go", "r.open = nil; len(r.paths) == 0 {", "r.open = nil; len(r.paths) >= 0 {", inputs},
		{"stage-files-choose-again", "internal/parquet/write/writer.go", "		w.settings = w.opts.Choice.made()\n", "		w.settings = nil\n", files},
		{"stage-few-rows-choose", "internal/parquet/write/choice.go", "rows < MinChoiceRows", "rows < 0", files},
		{"stage-mixes-columns", "internal/parquet/records/records.go", "			at = found[0]\n", "			at = i\n", inputs},
	}
}
