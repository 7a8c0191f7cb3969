package main

// elsewhereMutants forget what other engines need of tables that are staged, and print Spark SQL that means something else.
func elsewhereMutants() []mutant {
	stages, scripts := []string{"./loader/stage"}, []string{"./cmd/penstock/backfill"}
	return []mutant{
		{"stage-forgets-blooms", "loader/stage/bloom.go", "				out = append(out, f.ID)\n", "", stages},
		{"stage-blooms-all", "loader/stage/bloom.go", "strings.EqualFold(t.state.Properties[bloomOption+f.Name], \"true\")", "!strings.EqualFold(t.state.Properties[bloomOption+f.Name], \"true\")", stages},
		{"spark-takes-the-first-of-last", "cmd/penstock/backfill/promoted_entry.go", "		switch descending != last {\n", "		switch descending == last {\n", scripts},
		{"spark-nulls-come-last", "cmd/penstock/backfill/promoted_entry.go", "		nulls = \" NULLS FIRST\"\n", "", scripts},
		{"spark-keeps-no-nulls", "cmd/penstock/backfill/promoted_entry.go", "	if !e.entry.Nulls.Replace() {\n", "	if e.entry.Nulls.Replace() {\n", scripts},
		{"spark-allows-duplicates", "cmd/penstock/backfill/promoted_entry.go", "	if e.entry.Duplicates.Fail() {\n", "	if !e.entry.Duplicates.Fail() {\n", scripts},
		{"spark-allows-missing", "cmd/penstock/backfill/promoted_entry.go", "	if e.entry.Missing.Fail() {\n", "	if !e.entry.Missing.Fail() {\n", scripts},
		{"spark-prints-filters", "cmd/penstock/backfill/promoted_entry.go", "	case !s.Filter.IsZero():\n", "	case s.Custom == \"x\":\n", scripts},
		{"spark-ignores-lags", "cmd/penstock/backfill/promoted_entry.go", "		pair.training = fmt.Sprintf(\"date_sub(%s, %d)\", pair.training, a.Lag.Time/day)\n", "", scripts},
		{"spark-ignores-partitions", "cmd/penstock/backfill/promoted_entry.go", "	e.pairs = append(e.pairs, pair)\n", "", scripts},
	}
}
