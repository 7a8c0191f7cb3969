package main

// splitMutants are ways to go on from a cursor with another plan, and to read another
// part of one.
func splitMutants() []mutant {
	dataset := []string{"./loader/dataset"}
	return []mutant{
		{"a-zero-is-not-said", "loader/dataset/decode_resume.go", "		if at.has(one.name) && one.given != one.had {", "		if at.has(one.name) && one.given != one.had && one.given != \"0\" {", dataset},
		{"a-cursors-seed-is-not-taken", "loader/dataset/query.go", "	q.Seed = cmp.Or(q.Seed, c.Seed)\n", "", dataset},
		{"a-cursors-epoch-is-not-taken", "loader/dataset/query.go", "	q.Epoch = cmp.Or(q.Epoch, c.Epoch)\n", "", dataset},
		{"a-cursors-order-is-not-taken", "loader/dataset/query.go", "	q.Order = cmp.Or(q.Order, c.Order)\n", "", dataset},
		{"a-cursors-filter-is-not-taken", "loader/dataset/query.go", "	if q.Filter.IsZero() {\n		q.Filter, _", "	if !q.Filter.IsZero() {\n		q.Filter, _", dataset},
		{"a-cursors-sample-is-not-taken", "loader/dataset/query.go", "	if q.Sample == nil {\n		q.Sample, _", "	if q.Sample != nil {\n		q.Sample, _", dataset},
		{"another-seed-than-the-cursors-passes", "loader/dataset/decode_resume.go", "		{\"seed\", strconv.FormatInt(q.Seed, 10), strconv.FormatInt(c.Seed, 10)},\n", "", dataset},
		{"no-filter-agrees-with-any", "loader/dataset/decode_resume.go", "q.Filter.IsZero() && c.Filter != \"\"", "q.Filter.IsZero() && c.Filter == \"\"", dataset},
	}
}
