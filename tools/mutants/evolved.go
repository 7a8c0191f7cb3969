package main

// evolvedMutants are ways to read columns wrongly that have changed since a file was
// written.
func evolvedMutants() []mutant {
	parquet, catalog := []string{"./internal/parquet"}, []string{"./loader/catalog/..."}
	return []mutant{
		{"fields-go-by-their-place", "internal/parquet/shape.go", "	byID := identified(have) && identified(want)\n", "	byID := false\n", parquet},
		{"lacking-fields-are-the-last", "internal/parquet/shape.go", "	if at != absentField {\n		return s.apply(have[at], ", "	if len(have) > 0 {\n		return s.apply(have[max(at, 0)], ", parquet},
		{"nested-defaults-are-null", "internal/parquet/shape.go", "GetValue(initialDefaultKey); ok {", "GetValue(initialDefaultKey); ok && want.Type == nil {", parquet},
		{"nested-defaults-are-not-told", "loader/catalog/icebergcat/types.go", "		if f.InitialDefault != nil {\n			keys", "		if f.InitialDefault != nil && f.Required {\n			keys", catalog},
		{"scales-do-not-matter", "internal/parquet/widening.go", "a.Scale == b.Scale && ", "", parquet},
		{"decimals-may-shrink", "internal/parquet/widening.go", "a.Precision <= b.Precision", "a.Precision >= 0", parquet},
		{"bounds-are-of-the-type-of-now", "loader/catalog/icebergcat/ranges.go", "	written := boundType(t, raw)\n", "	written := t\n", catalog},
	}
}
