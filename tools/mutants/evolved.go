package main

// evolvedMutants are ways to read columns wrongly that have changed since a file was
// written.
func evolvedMutants() []mutant {
	parquet, catalog, scan := []string{"./internal/parquet"}, []string{"./loader/catalog/..."}, []string{"./loader/scan"}
	return []mutant{
		{"partition-values-are-null", "loader/scan/open.go", "	case known && value != nil:\n", "	case known && value != nil && c.Required:\n", scan},
		{"any-transform-is-the-identity", "loader/scan/open.go", "p.Source == id && p.Transform.Kind == catalog.Identity && ", "p.Source == id && ", scan},
		{"constants-are-pruned-as-nulls", "loader/scan/prune.go", "; constant {", "; constant && group < 0 {", scan},
		{"structs-lose-what-partitions-say", "loader/scan/open.go", "strings.HasPrefix(field.Name, c.Name+\".\")", "strings.HasPrefix(c.Name, field.Name+\".\")", scan},
		{"partition-values-are-cut", "loader/scan/constant.go", "		b.Append(int32(v))\n		return int64(int32(v)) == v\n", "		b.Append(int32(v))\n		return true\n", scan},
		{"decimals-are-rounded", "loader/scan/constant.go", "err == nil && n.ToString(t.Scale) == v", "err == nil", scan},
		{"fields-go-by-their-place", "internal/parquet/shape.go", "	byID := identified(have) && identified(want)\n", "	byID := false\n", parquet},
		{"lacking-fields-are-the-last", "internal/parquet/shape.go", "	if at != absentField {\n		return s.apply(have[at], ", "	if len(have) > 0 {\n		return s.apply(have[max(at, 0)], ", parquet},
		{"nested-defaults-are-null", "internal/parquet/shape.go", "GetValue(initialDefaultKey); ok {", "GetValue(initialDefaultKey); ok && want.Type == nil {", parquet},
		{"nested-defaults-are-not-told", "loader/catalog/icebergcat/types.go", "		if f.InitialDefault != nil {\n			keys", "		if f.InitialDefault != nil && f.Required {\n			keys", catalog},
		{"scales-do-not-matter", "internal/parquet/widening.go", "a.Scale == b.Scale && ", "", parquet},
		{"decimals-may-shrink", "internal/parquet/widening.go", "a.Precision <= b.Precision", "a.Precision >= 0", parquet},
		{"bounds-are-of-the-type-of-now", "loader/catalog/icebergcat/ranges.go", "	written := boundType(t, raw)\n", "	written := t\n", catalog},
	}
}
