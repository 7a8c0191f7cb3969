package main

// joinMutants break what one training row becomes.
func joinMutants() []mutant { //nolint:funlen // a table
	join := []string{"./joiner"}
	return []mutant{
		{
			"null-matches-null", "joiner/buildkeys.go",
			"		here[i] = here[i] || n\n", "		here[i] = here[i] && n\n", join,
		},
		{
			"null-training-key-matches", "joiner/rowmatcher.go",
			"		if null {\n			refs[i] = 0", "		if null && i < 0 {\n			refs[i] = 0", join,
		},
		{
			"last-becomes-first", "joiner/rowmatcher.go",
			"rows[len(rows)-1] + 1\n	}\n}", "rows[0] + 1\n	}\n}", join,
		},
		{
			"first-becomes-last", "joiner/rowmatcher.go",
			"	m.refs[row] = rows[0] + 1\n	if", "	m.refs[row] = rows[len(rows)-1] + 1\n	if", join,
		},
		{
			"duplicates-are-no-error", "joiner/verdict.go",
			"		v.setBroken(p, first)\n", "		v.setBroken(p, max(first, v.rows))\n", join,
		},
		{
			"missing-is-no-error", "joiner/verdict.go",
			"			v.setBroken(p, i)\n			return\n", "			v.setBroken(p, max(i, v.rows))\n			return\n", join,
		},
		{
			"later-row-breaks-first", "joiner/verdict.go",
			"	if row < v.row {\n", "	if row <= v.row || v.broken != nil {\n", join,
		},
		{
			"inner-keeps-all", "joiner/rule/kind.go",
			"	case Inner, Semi:\n		return matched\n", "	case Inner, Semi:\n		return true\n", join,
		},
		{
			"anti-keeps-matched", "joiner/rule/kind.go",
			"		return !matched\n", "		return matched\n", join,
		},
		{
			"semi-multiplies", "joiner/contract.go",
			"return r.Duplicates.Multiply() && r.Kind.Adds()", "return r.Duplicates.Multiply()", join,
		},
		{
			"semi-breaks-duplicates", "joiner/contract.go",
			"return r.Duplicates.Fail() && r.Kind.Adds()", "return r.Duplicates.Fail()", join,
		},
		{
			"overlay-without-match", "joiner/overlay.go",
			"			if ref == 0 || keepNulls", "			if keepNulls", join,
		},
		{
			"overlay-drops-kept-nulls", "joiner/overlay.go",
			"keepNulls := o.keepNulls && values.NullN() > 0", "keepNulls := false", join,
		},
		{
			"first-overlay-wins", "joiner/overlay.go",
			"			which[i], at[i] = source, ref\n",
			"			if which[i] == 0 {\n				which[i], at[i] = source, ref\n			}\n", join,
		},
		{
			"default-is-null", "joiner/dictionary.go",
			"		first = b.spec.Defaults[at]\n", "		_ = b.spec.Defaults[at]\n", join,
		},
		{
			"defaults-are-not-counted", "joiner/verdict.go",
			"		counts.Defaulted = counts.Missing\n", "", join,
		},
		{
			"everything-matched", "joiner/dictionary.go",
			"bitutil.SetBitsTo(buffer.Bytes(), 1, b.rows, true)", "bitutil.SetBitsTo(buffer.Bytes(), 0, b.rows+1, true)", join,
		},
		{
			"nulls-first", "joiner/roworder.go",
			"		return nulls\n", "		return -nulls\n", join,
		},
		{
			"descending-is-ascending", "joiner/roworder.go",
			"		return -c\n", "		return c\n", join,
		},
		{
			"nan-is-lowest", "joiner/roworder.go",
			"truth(math.IsNaN(float64(x))) - truth(math.IsNaN(float64(y)))", "truth(math.IsNaN(float64(y))) - truth(math.IsNaN(float64(x)))", join,
		},
		{
			"ties-by-nothing", "joiner/roworder.go",
			"cmp.Or(r.level(a, b), cmp.Compare(a, b))", "cmp.Or(r.level(a, b), cmp.Compare(b, a))", join,
		},
		{
			"resolved-is-not-counted", "joiner/verdict.go",
			"		counts.Resolved = counts.Duplicates\n", "", join,
		},
		{
			"first-table-goes-fastest", "joiner/expand.go",
			"	for i := len(probes) - 1; i >= 0; i-- {", "	for i := range probes {", join,
		},
		{
			"dropped-rows-are-repeated", "joiner/expand.go",
			"if e.drop != nil && e.drop[e.row] {", "if e.drop != nil && e.drop[e.row] && e.row < 0 {", join,
		},
		{
			"products-are-not-cut", "joiner/expand.go",
			"e.row < rows && len(e.rows) < expandRows", "e.row < rows && len(e.rows) < expandRows*1000", join,
		},
		{
			"product-loses-its-cut", "joiner/expand.go",
			"	e.fill(j.probes)\n", "	clear(e.nth)\n	e.fill(j.probes)\n", join,
		},
		{
			"the-future-leaks-in", "joiner/rowmatcher.go",
			"	if r.Exact {\n		return staging > training", "	if r.Exact {\n		return staging > training+1", join,
		},
		{
			"exact-is-ignored", "joiner/rowmatcher.go",
			"	return staging >= training\n", "	return staging > training\n", join,
		},
		{
			"tolerance-off-by-one", "joiner/rowmatcher.go",
			"<= uint64(r.Tolerance)", "< uint64(r.Tolerance)", join,
		},
		{
			"times-overflow", "joiner/rowmatcher.go",
			"uint64(training)-uint64(staging) <= uint64(r.Tolerance)", "training-staging <= r.Tolerance", join,
		},
		{
			"earliest-not-latest", "joiner/rowmatcher.go",
			"		m.setGroup(i, rows[low:high], from+int32(low))", "		m.setGroup(i, rows[:high], from)", join,
		},
		{
			"null-time-matches", "joiner/rowmatcher.go",
			"if wanted.null != nil && wanted.null[i] {", "if wanted.null != nil && wanted.null[i] && i < 0 {", join,
		},
		{
			"sorted-without-looking", "joiner/merge.go",
			"return from, to, slices.IsSorted(keys.ints)", "return from, to, slices.IsSorted(keys.ints[:1])", join,
		},
		{
			"sorted-but-for-the-last", "joiner/merge.go",
			"	for row := from + 1; row < to; row++ {\n		if dead", "	for row := from + 1; row < to-1; row++ {\n		if dead", join,
		},
		{
			"search-never-goes-back", "joiner/merge.go",
			"		for step := int32(1); low > m.from && !below(low-1); step *= 2 {", "		for step := int32(1); low > m.from+1 && !below(low-1); step *= 2 {", join,
		},
		{
			"search-is-not-exact", "joiner/merge.go",
			"			low = middle + 1\n", "			low = middle\n			break\n", join,
		},
		{
			"zip-takes-the-next", "joiner/zip.go",
			"		if !found && is(m.at+1, key) {\n			m.at++\n			found = true\n		}\n		if !found {\n			m.seekInt",
			"		if !found && int(m.at)+1 < len(keys) {\n			m.at++\n			found = true\n		}\n		if !found {\n			m.seekInt", join,
		},
		{
			"sign-is-ignored", "joiner/encoder.go",
			"const sign = 1 << 63", "const sign = 0", join,
		},
		{
			"zeros-end-strings", "joiner/encoder.go",
			"escapedZero = \"\\x00\\xff\"", "escapedZero = \"\\x00\\x00\"", join,
		},
		{
			"custom-null-keys-match", "joiner/rowmatcher.go",
			"	for i, null := range keys.encoded.null {\n", "	for i, null := range keys.encoded.null[:0] {\n", join,
		},
		{
			"custom-is-not-checked", "joiner/custom.go",
			"		if row < -1 || int64(row) >= c.rows {", "		if row < -1 {", join,
		},
		{
			"choose-forgets-the-order", "internal/batch/choose.go",
			"	return Gather(dt, []Segment{{Values: first, Indices: c.order}}, c.mem)\n", "	first.Retain()\n	return first, nil\n",
			[]string{"./internal/batch"},
		},
	}
}
