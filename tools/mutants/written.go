package main

// fileMutants are ways to read rows that files do not hold: columns that nobody
// looked at, defaults that are taken for nulls, files in the order of their names.
func fileMutants() []mutant {
	digest := []string{"./internal/digest"}
	loader, scan, catalog := []string{"./loader"}, []string{"./loader/scan"}, []string{"./loader/catalog/..."}
	return []mutant{
		{"epochs-share-a-plan", "loader/plans.go", "	rows.Dataset, rows.Inline, rows.Pin = r.Dataset.Digest(), nil, r.Pin()\n", "	rows.Dataset, rows.Inline, rows.Pin, rows.Epoch = r.Dataset.Digest(), nil, r.Pin(), 0\n", loader},
		{"columns-share-a-plan", "loader/plans.go", "columns: q.Selection()", "columns: dataset.Selection{Dense: q.Dense}", loader},
		{
			"lists-have-no-length", "internal/digest/digest.go",
			"		e.uint(uint64(v.Len()))\n", "", digest,
		},
		{
			"bytes-of-texts-are-joined", "internal/digest/digest.go",
			"	e.uint(uint64(len(s)))\n", "", digest,
		},
		{
			"types-in-interfaces-do-not-count", "internal/digest/digest.go",
			"			e.text(v.Elem().Type().String())\n", "", digest,
		},
		{
			"late-filter-is-not-looked-at", "loader/plan/bound.go",
			"	for _, o := range slices.Concat(resolve.Leaves(outputs), b.PostJoinColumns) {", "	for _, o := range resolve.Leaves(outputs) {", loader,
		},
		{
			"sample-is-not-looked-at", "loader/plan/bound.go",
			"slices.Concat(b.Filter.Columns(), b.Sample.Reads())", "b.Filter.Columns()", loader,
		},
		{
			"overlay-is-not-looked-at", "loader/plan/bound.go",
			"	for _, over := range o.Overlays {", "	for _, over := range o.Overlays[len(o.Overlays):] {", loader,
		},
		{
			"any-column-is-read", "loader/plan/bound.go",
			"; planned {", "; planned || len(s.Planned) > 0 {", append(scan, loader...),
		},
		{
			"absent-default-is-null", "loader/scan/open.go",
			"	case !known && o.byDefault(t, c):\n", "	case !known && c.Required && o.byDefault(t, c):\n", scan,
		},
		{
			"nested-ids-are-not-compared", "loader/scan/projection.go",
			"		if f.Stored != nil {", "		if f.Stored != nil && f.Required {", scan,
		},
		{
			"required-columns-may-lack", "loader/catalog/icebergcat/written.go",
			"	if now.InitialDefault != nil || !now.Required {", "	if now.InitialDefault != nil || now.Required {", catalog,
		},
		{
			"names-come-before-commits", "loader/plan/committed.go",
			"cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Location, b.Location)", "strings.Compare(a.Location, b.Location), cmp.Compare(a.Rank, b.Rank)", loader,
		},
		{
			"commits-come-before-sequence", "loader/plan/committed.go",
			"cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Rank, b.Rank)", "cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Sequence, b.Sequence)", loader,
		},
		{
			"unknown-order-is-taken", "loader/plan/committed.go",
			"pair[0][0].Snapshot != x.Snapshot", "pair[0][0].Snapshot > x.Snapshot+1000", loader,
		},
		{
			"all-goes-by-commits", "loader/plan/committed.go",
			"return s.Join.Adds() && s.Duplicates.Choose()", "return s.Join.Adds()", loader,
		},
		{
			"distinct-goes-by-names", "loader/joined/distinct.go",
			"	if places := source.Places(); places != nil {", "	if places := source.Places(); len(places) > 1000 {", loader,
		},
		{
			"places-are-not-in-the-id", "loader/plan/identity.go",
			"p.Training(Range{Split: i, To: split.Rows}).Places()", "p.Training(Range{Split: i, From: split.Rows, To: split.Rows}).Places()", loader,
		},
		{
			"ranks-from-the-newest", "loader/catalog/rank.go",
			"		return len(c.depths) - depth", "		return 1 + depth", catalog,
		},
		{
			"broken-chain-is-whole", "loader/catalog/rank.go",
			"!known || again {\n			return c", "!known || again {\n			c.whole = true\n			return c", catalog,
		},
	}
}
