package main

// ruleMutants break how rules are decoded, and how tables are verified.
func ruleMutants() []mutant {
	dataset, verified, flight := []string{"./loader/dataset", "./loader/dataset/decode"}, []string{"./loader/verify"}, []string{"./flight"}
	return []mutant{
		{"cursor-forgets-its-sample", "loader/dataset/rows.go", "		{\"sample\", r.Sample.Canonical()},\n", "", dataset},
		{"month-is-thirty-days", "loader/dataset/duration.go", "{word: \"mo\", months: 1}", "{word: \"mo\", length: 30 * day}", dataset},
		{"align-with-a-lag-is-same", "loader/dataset/rules.go", "		a.Rule = AlignLag\n", "		a.Rule = AlignSame\n", dataset},
		{"point-in-time-is-not-exact", "loader/dataset/decode/rules.go", "PointInTime{Exact: true}", "PointInTime{}", dataset},
		{"order-by-forgets-desc", "loader/dataset/rules.go", "Descending: direction == descending", "Descending: direction == ascending", dataset},
		{"default-one-becomes-a-whole-number", "loader/dataset/form.go", "value = append(value, \".0\"...)", "_ = fraction", dataset},
		{"semi-takes-columns", "loader/dataset/decode/check_rules.go", "	if !kind.Adds() {\n", "	if kind.Fills() && !kind.Adds() {\n", dataset},
		{"plan-takes-unknown-strategies", "loader/plan.go", "i)); err != nil {\n\t\t\treturn Planned{}, err", "i)); err != nil && i < 0 {\n\t\t\treturn Planned{}, err", []string{"./loader"}},
		{"report-forgets-the-sample", "loader/stream/report.go", "Sample: json.RawMessage(s.spec.Plan.Rows.Sample.Canonical()), Staging:", "Sample: json.RawMessage(\"\"), Staging:", flight},
		{"plan-forgets-the-sample", "flight/info.go", "json.RawMessage(p.Rows.Sample.Canonical())", "json.RawMessage(\"\")", flight},
		{"observer-misses-the-staging-counts", "flight/get.go", "	o.staging = source.Report().Staging\n", "", flight},
		{"sample-digest-depends-on-blanks", "loader/dataset/sample.go", "	plain.Where = plain.Where.canonical()\n", "", dataset},
		{"verify-null-keys-match", "loader/verify/pass.go", "	if p.keys.null(row) {\n", "	if p.keys.null(row) && p.number > 0 {\n", verified},
		{"verify-forgets-the-tolerance", "loader/verify/pass.go", "entries[later-1].time < oldest", "entries[later-1].time < math.MinInt64", verified},
		{"verify-forgets-exact", "loader/verify/pass.go", "e.time == t && rule.Exact", "e.time == t", verified},
		{"verify-aligned-partitions-share-keys", "loader/verify/clusters.go", "		if aligned {\n", "		if !aligned {\n", verified},
		{"verify-loses-duplicates", "loader/verify/keytable.go", "out[last].rows += e.rows", "out[last].rows = e.rows", verified},
		{"verify-passes-overlap", "loader/verify/pass.go", "key.low%p.of == p.number", "key.low%p.of <= p.number", verified},
		{"verify-ends-at-a-damaged-file", "loader/verify/verify.go", "case kind != fault.Corrupt && kind", "case kind", verified},
		{"verify-takes-null-for-any-bucket", "loader/verify/layout.go", "			if belongs == b.bucket {\n", "			if belongs == b.bucket || b.bucket.Null() {\n", verified},
	}
}
