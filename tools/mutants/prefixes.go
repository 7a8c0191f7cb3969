package main

// prefixMutants are ways to read files of tables, or to send tokens, where no one allowed it.
func prefixMutants() []mutant {
	store, catalog, rest := []string{"./internal/store"}, []string{"./loader/catalog/icebergcat"}, []string{"./loader/catalog/restcat"}
	return []mutant{
		{"prefixes-end-within-names", "internal/store/prefixes.go", "strings.TrimRight(folder, \"/\") + \"/\"", "strings.TrimRight(folder, \"/\")", store},
		{"locations-may-climb", "internal/store/prefixes.go", "\t\tif part == \"..\" {\n", "\t\tif part == \"...\" {\n", store},
		{"schemes-are-not-alike", "internal/store/prefixes.go", "canonical := k.Canonical(location)", "canonical := location", store},
		{"data-files-lie-anywhere", "loader/catalog/icebergcat/files.go", "err := l.meta.may(\"file\", location); err != nil", "err := l.meta.may(\"file\", location); err == nil && false", catalog},
		{"delete-files-lie-anywhere", "loader/catalog/icebergcat/deletes.go", "err := l.meta.may(\"delete file\", location); err != nil", "err := l.meta.may(\"delete file\", location); err == nil && false", catalog},
		{"manifests-lie-anywhere", "loader/catalog/icebergcat/remember.go", "err := l.meta.may(file.What, file.Location); err != nil", "err := l.meta.may(file.What, file.Location); err == nil && false", catalog},
		{"older-metadata-lies-anywhere", "loader/catalog/icebergcat/name_mapping.go", "err := m.may(file.What, location); err != nil", "err := m.may(file.What, location); err == nil && false", catalog},
		{"metadata-widens-prefixes", "loader/catalog/icebergcat/prefixes.go", "\tif m.returned {\n", "\tif !m.returned {\n", catalog},
		{"prefixes-keep-the-warehouse", "loader/catalog/icebergcat/prefixes.go", "\tif len(o.AllowedPrefixes) > 0 {\n", "\tif len(o.AllowedPrefixes) > 0 && o.Warehouse == \"\" {\n", catalog},
		{"configurations-move-tokens", "loader/catalog/restcat/stays.go", "c.hasSecrets() && !sameServer(base, c.base)", "c.hasSecrets() && base.Host == \"\"", rest},
		{"configurations-move-credentials", "loader/catalog/restcat/stays.go", "\t\tif !sameServer(at, c.base) && !c.namesServer(at) {\n", "\t\tif !sameServer(at, c.base) && c.namesServer(at) {\n", rest},
	}
}
