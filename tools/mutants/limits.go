package main

// limitMutants are ways to let files, clients and operators do more harm than they
// may: metadata of any size, claims that are believed, secrets that are shown.
func limitMutants() []mutant {
	parquet, catalog := []string{"./internal/parquet"}, []string{"./loader/catalog/icebergcat"}
	fault, flight := []string{"./internal/fault"}, []string{"./flight"}
	return []mutant{
		{"metadata-of-any-size-is-read", "loader/catalog/icebergcat/metafile/allowance.go", "	if n <= a.Max {\n", "	if n >= 0 {\n", catalog},
		{
			"metadata-unpacks-to-any-size", "loader/catalog/icebergcat/metafile/unpack.go",
			"		if u.total += int64(n); u.total > u.Max {\n", "		if u.total += int64(n); u.total < 0 {\n", catalog,
		},
		{"records-are-not-charged", "loader/catalog/icebergcat/metafile/container.go", "c.Charge(c.form.record*records + ", "c.Charge(", catalog},
		{
			"metadata-is-charged-for-ever", "loader/catalog/icebergcat/files.go",
			"	defer held.Release()\n	file := l.catalog.allow(", "	file := l.catalog.allow(", catalog,
		},
		{
			"catalog-stays-open", "loader/catalog/sqlcat/sqlite.go",
			"if closing := db.Close(); err == nil", "if closing := error(nil); err == nil", catalog,
		},
		{"footer-of-any-size-is-read", "internal/parquet/footer.go", "	if l.Bytes > 0 && length > l.Bytes {\n", "	if l.Bytes < 0 && length > l.Bytes {\n", parquet},
		{"footers-are-not-charged", "internal/parquet/footer.go", "	if length > tailBytes {\n", "	if length < 0 {\n", parquet},
		{
			"footer-claims-are-believed", "internal/parquet/footer.go",
			"	if walk.skip(thriftStruct, maxFooterDepth) != nil {\n", "	if walk.skip(thriftStruct, maxFooterDepth) != nil && size < 0 {\n", parquet,
		},
		{"passwords-are-shown", "internal/fault/redact.go", "	return hidden + rest[at:]\n", "	return rest\n", fault},
		{"tickets-are-renewed-for-ever", "flight/ticket.go", "; expires.After(last) {\n", "; expires.After(last) && c.First < 0 {\n", flight},
	}
}
