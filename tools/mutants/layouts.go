package main

// layoutMutants break which staging files a split finds, and how a dataset is
// bound to its tables.
func layoutMutants() []mutant { //nolint:funlen // a table
	resolve, plan := []string{"./loader/resolve"}, []string{"./loader/plan"}
	return []mutant{
		{
			"gcd-becomes-min", "loader/resolve/buckets.go",
			"Modulus:  bucket.Overlap(t.Transform.N, s.Transform.N),",
			"Modulus:  bucket.Overlap(0, min(t.Transform.N, s.Transform.N)),", resolve,
		},
		{
			"null-training-partition-matches", "loader/resolve/facts.go",
			"		if full.empty {\n			return false",
			"		if full.empty && len(files) > 99 {\n			return false", resolve,
		},
		{
			"null-staging-partition-matches", "loader/resolve/facts.go",
			"		out.none = out.none || full[i].empty",
			"		out.none = out.none || i > 99", resolve,
		},
		{
			"training-specs-share-file-groups", "loader/resolve/match.go",
			"	m.text = binary.AppendVarint(m.text[:0], int64(files[0].Spec))",
			"	m.text = binary.AppendVarint(m.text[:0], 0)", resolve,
		},
		{
			"one-bucketed-column-of-a-key", "loader/resolve/buckets.go",
			"	for _, k := range keys {",
			"	for _, k := range keys[:1] {", resolve,
		},
		{
			"other-columns-buckets-are-compared", "loader/resolve/buckets.go",
			"if s.Source != k.Staging.ID || s.Transform",
			"if s.Transform", resolve,
		},
		{
			"unbucketed-staging-files-are-lost", "loader/resolve/pairing.go",
			"	for _, spec := range m.specs {\n		p :=",
			"	for _, spec := range m.specs {\n		if len(m.specs) > 1 && len(m.staging.Pinned.Specs[spec]) == 0 {\n			continue\n		}\n		p :=", resolve,
		},
		{
			"truncate-is-one-too-narrow", "loader/resolve/interval.go",
			"	last := int64(width) - 1",
			"	last := int64(width) - 2", resolve,
		},
		{
			"times-before-1970-as-new-writers-alone", "loader/resolve/interval.go",
			"	if ordinal <= 0 {\n		first--",
			"	if ordinal <= 0 {\n		first++", resolve,
		},
		{
			"ranges-of-the-first-file-alone", "loader/resolve/facts.go",
			"		out = out.or(statistics(f, column))",
			"		out = out.or(statistics(files[0], column)); _ = f", resolve,
		},
		{
			"ranges-exclude-their-bounds", "loader/resolve/interval.go",
			"	return ok && order < 0\n",
			"	return ok && order <= 0\n", resolve,
		},
		{
			"broadcast-is-narrowed", "loader/resolve/pairing.go",
			"		if !m.staging.searchedWhole() {\n			p.Buckets",
			"		if true {\n			p.Buckets", resolve,
		},
		{
			"same-takes-the-next", "loader/resolve/align.go",
			"	return a.unit.at(u.start(ordinal))\n",
			"	return a.unit.at(u.start(ordinal + 1))\n", resolve,
		},
		{
			"lag-is-forgotten", "loader/resolve/align.go",
			"	return a.unit.at(u.start(ordinal)) - a.steps()",
			"	return a.unit.at(u.start(ordinal))", resolve,
		},
		{
			"latest-before-may-overlap", "loader/resolve/align.go",
			"return !a.unit.start(n + 1).After(limit)",
			"return !a.unit.start(n).After(limit)", resolve,
		},
		{
			"latest-before-forgets-the-lag", "loader/resolve/align.go",
			"	return t.Add(-lag.Time)",
			"	return t", resolve,
		},
		{
			"latest-before-of-filtered-files", "loader/resolve/match.go",
			"r.Training, s.Pinned, all); err",
			"r.Training, s.Pinned, kept[:min(1, len(kept))]); err", resolve,
		},
		{
			"same-takes-finer-partitions", "loader/resolve/align.go",
			"a.rule.Rule.IsSame() && a.unit > training:",
			"a.rule.Rule.IsSame() && a.unit > training+9:", resolve,
		},
		{
			"half-a-lag", "loader/resolve/align.go",
			"lag.Time%length == 0",
			"lag.Time >= length/2", resolve,
		},
		{
			"tolerance-is-forgotten", "loader/resolve/facts.go",
			"moved(span.low, -t.reach())",
			"moved(span.low, 0*t.reach())", resolve,
		},
		{
			"future-files-match", "loader/resolve/facts.go",
			"-t.reach()), high: span.high}",
			"-t.reach())}", resolve,
		},
		{
			"unaligned-is-not-counted", "loader/plan/file_groups.go",
			"		if !exists {",
			"		if !exists && group >= 0 {", plan,
		},
		{
			"default-of-the-stored-type", "loader/resolve/default.go",
			"array.NewBuilder(memory.DefaultAllocator, o.Type())",
			"array.NewBuilder(memory.DefaultAllocator, o.Field.Type)", resolve,
		},
		{
			"overlay-of-keys-passes", "loader/resolve/output.go",
			"	case use != \"\":",
			"	case use == \"?\":", resolve,
		},
		{
			"overlaid-null-is-hidden", "loader/resolve/output.go",
			"		replaced.Null = true\n",
			"		_ = replaced\n", resolve,
		},
		{
			"matched-may-be-null", "loader/resolve/output.go",
			"Table: entry, Field: matched, Matched: true}",
			"Table: entry, Field: matched, Matched: true, Null: true}", resolve,
		},
		{
			"query-shapes-replace-the-datasets", "loader/resolve/shape.go",
			"append(slices.Clone(o.Shapes), shape)",
			"append(slices.Clone(o.Shapes[:0]), shape)", resolve,
		},
		{
			"filters-on-overlaid-columns-are-pushed-down", "loader/plan/filter.go",
			"o.Table != resolve.TrainingTable || len(o.Overlays) > 0",
			"o.Table != resolve.TrainingTable", plan,
		},
		{
			"sample-prunes-the-wrong-buckets", "loader/plan/build.go",
			"b.Of, p.Sample.From, p.Sample.To)",
			"b.Of, p.Sample.To, p.Sample.From)", plan,
		},
		{
			"distinct-splits-are-cut", "loader/plan/build.go",
			"				if p.wholeBuckets() {\n					to = f.Rows\n				}\n				open.Files = append(open.Files, FileRange{File: f, From: from, To: to})\n" +
				"				open.Rows += to - from\n				from = to\n				if open.Rows == splitRows && !p.wholeBuckets() {",
			"				open.Files = append(open.Files, FileRange{File: f, From: from, To: to})\n" +
				"				open.Rows += to - from\n				from = to\n				if open.Rows == splitRows {", plan,
		},
		{
			"distinct-splits-are-cut-by-lanes", "loader/plan/order.go",
			"		if p.wholeBuckets() {\n			return p.StoredRows",
			"		if p.wholeBuckets() && n < 0 {\n			return p.StoredRows", plan,
		},
		{
			"distinct-across-partitions-passes", "loader/plan/distinct.go",
			"		if !by {",
			"		if !by && len(d.By) > 9 {", plan,
		},
		{
			"specs-before-common-fields", "loader/plan/order.go",
			"cmp.Or(comparePartitions(a.shared, b.shared), cmp.Compare(a.family, b.family),",
			"cmp.Or(cmp.Compare(a.family, b.family), comparePartitions(a.shared, b.shared),", plan,
		},
		{
			"amplification-is-not-limited", "loader/plan/file_groups.go",
			"		if stored > smallTable {",
			"		if stored < 0 {", plan,
		},
		{
			"merged-file-groups-lose-files", "loader/plan/file_groups.go",
			"			n := number[i]",
			"			n := number[0*i]", plan,
		},
		{
			"split-takes-rows-of-a-residue-apart", "loader/plan/build.go",
			`id = catalog.AppendPartition(fmt.Appendf(id[:0], "%d\n", f.Spec), f.Partition)`,
			`id = catalog.AppendPartition(fmt.Appendf(id[:0], "%d\n", 0), f.Partition)`, plan,
		},
	}
}
