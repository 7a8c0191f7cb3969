package main

// neededMutants are ways to read what no query asks for, to judge it, or to leave out what must be read.
func neededMutants() []mutant {
	loader, plan, verify := []string{"./loader"}, []string{"./loader/plan"}, []string{"./loader/verify", "./loader"}
	catalog := []string{"./loader/catalog/icebergcat"}
	return []mutant{
		{"overlays-are-not-asked-for", "loader/resolve/needed.go", "return o.Table == entry || slices.ContainsFunc(o.Overlays, func(over Overlay) bool { return over.Table == entry })", "return o.Table == entry", loader},
		{"missing-keys-of-unasked-entries-pass", "loader/resolve/needed.go", "s.Counted(asked) || s.Missing.Fail() ||", "s.Counted(asked) ||", loader},
		{"min-match-of-unasked-entries-passes", "loader/resolve/needed.go", " || s.MinMatch > 0", "", loader},
		{"duplicates-of-unasked-inner-joins-fail", "loader/joined/staging.go", "in.rule.Unasked = !asked", "in.rule.Unasked = false", loader},
		{"duplicates-are-never-judged", "joiner/contract.go", "r.Kind.Adds() && !r.Unasked", "r.Kind.Adds() && r.Unasked", loader},
		{"keys-are-read-to-be-checked", "loader/joined/columns.go", "	source.Checked = checkedOf(source, fields)\n", "", loader},
		{"keys-that-are-read-are-not-checked", "loader/joined/columns.go", "return !slices.ContainsFunc(requested, same) && ", "return ", loader},
		{"planning-asks-about-unneeded-columns", "loader/plan/bound.go", "		if !needed {\n			continue\n", "		if !needed && i < 0 {\n			continue\n", plan},
		{"verify-asks-about-no-training-keys", "loader/verify/forms.go", "slices.Concat(whole.Planned, c.probing)", "slices.Clone(whole.Planned)", verify},
		{"explain-hides-what-is-not-read", "loader/plan/explain_staging.go", "	if !needed || s.Unread {\n", "	if (!needed || s.Unread) && r.Rows != nil && r.Time != nil {\n", plan},
		{"one-chunk-is-counted", "internal/parquet/group.go", "		bytes += s.length\n", "		bytes = s.length\n", loader},
		{"counts-of-a-read-are-kept-twice", "loader/buildside/costs.go", "more := read[location] - c.files[location]", "more := bytes", loader},
		{"any-match-warns", "loader/stream/report.go", "s.MinMatch > 0 || s.AnyMatch ||", "s.MinMatch > 0 ||", []string{"./flight"}},
		{"any-match-breaks-a-rule", "loader/verify/verify.go", "		if s.AnyMatch {\n", "		if !s.AnyMatch && s.MinMatch > 0 {\n", verify},
		{"tables-are-remembered-without-their-metadata", "loader/catalog/icebergcat/remembered.go", "of.metadata = sha256.Sum256(meta.text)", "of.metadata = sha256.Sum256(nil)", catalog},
		{"tables-are-remembered-without-their-metadata-file", "loader/catalog/icebergcat/remembered.go", "of.location = at.Location", "of.location = of.name", catalog},
		{"names-that-are-used-again-are-trusted", "loader/catalog/icebergcat/remembered.go", " || !unique(at.Location) {", " {", catalog},
		{"unranked-files-are-remembered", "loader/listings.go", "return f.Snapshot != 0 })", "return f.Snapshot < 0 })", loader},
		{"columns-do-not-tell-lists-apart", "loader/plan.go", "columns: columns, ranges: ranges}", "ranges: ranges}", loader},
		{"pins-are-encoded-once-for-all", "loader/dataset/canonical.go", "text[at+len(empty):])", "text[at:])", []string{"./loader/dataset"}},
		{"questions-read-the-past", "loader/catalog/sqlcat/together.go", "for _, one := range together {", "for _, one := range c.waiting.list() {", []string{"./loader/catalog/sqlcat"}},
	}
}
