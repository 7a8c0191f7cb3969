package main

// rememberMutants are ways to list a table by the manifests of another one, or for
// nothing.
func rememberMutants() []mutant {
	catalog := []string{"./loader/catalog/..."}
	return []mutant{
		{"manifests-of-any-table-are-one", "loader/catalog/icebergcat/remember.go", "manifestOf{table: l.meta.TableUUID().String(), location: location, length: length}", "manifestOf{location: location, length: length}", catalog},
		{"what-is-remembered-is-free", "loader/catalog/icebergcat/remember.go", "	if err == nil && !read {\n", "	if err == nil && read {\n", catalog},
		{"manifests-are-read-each-time", "loader/catalog/icebergcat/remember.go", "	if remembered == nil {\n", "	if remembered == nil || key != \"\" {\n", catalog},
	}
}
