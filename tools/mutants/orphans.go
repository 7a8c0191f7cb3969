package main

// orphanMutants remove files that a table needs, or leave those that nothing needs.
func orphanMutants() []mutant {
	left, tables, commands := []string{"./loader/orphans"}, []string{"./loader/catalog/icebergcat"}, []string{"./cmd/penstock"}
	return []mutant{
		{"orphans-own-any-prefix", "loader/catalog/commit/name.go", "`^penstock-[0-9a-f]{16}-`", "`^penstock-`", []string{"./loader/catalog/commit"}},
		{"orphans-ignore-failures", "loader/orphans/find.go", "folder.UUID, found.Keep); err != nil {", "folder.UUID, found.Keep); err == nil {", left},
		{"orphans-share-folders", "loader/orphans/find.go", "		case snapshots > 0:\n", "		case snapshots > 9:\n", left},
		{"orphans-share-folders-without-uuid", "loader/orphans/find.go", "		case snapshots > 0:\n", "		case snapshots > 0 && owner != \"\":\n", left},
		{"orphans-take-empty-tables", "loader/orphans/find.go", "		case owner != \"\":\n", "		case owner == \"\":\n", left},
		{"orphans-keep-failed-creations", "loader/orphans/find.go", "	if !known {\n", "	if !known || len(current) >= 0 {\n", left},
		{"orphans-take-empty-tables-unlisted", "loader/orphans/find.go", "	if !known {\n", "	if !known && err != nil {\n", left},
		{"orphans-take-current-metadata", "loader/orphans/find.go", "		f.Keep(location)\n", "", left},
		{"orphans-take-earlier-metadata", "loader/orphans/find.go", "folder.UUID, location, f.Keep); {", "folder.UUID, location, func(string) {}); {", left},
		{"orphans-beside-a-first-commit", "loader/orphans/find.go", "owner != folder.UUID && snapshots > 0:", "owner != folder.UUID && snapshots > 9:", left},
		{"orphans-of-an-unlisted-catalog", "loader/orphans/find.go", "	current, known, err := tables.CurrentMetadata(ctx)\n	if err != nil {\n", "	current, known, err := tables.CurrentMetadata(ctx)\n	if err != nil && len(current) > 99 {\n", left},
		{"orphans-list-one-catalog", "loader/catalog/sqlcat/list.go", "`SELECT * FROM iceberg_tables`)", "`SELECT * FROM iceberg_tables WHERE catalog_name = 'prod'`)", []string{"./loader/catalog/sqlcat"}},
		{"tags-write-foreign-names", "loader/catalog/icebergcat/tagged.go", "version, commit.MetadataID(), metafile", "version, commit.MetadataID()[:8]+\"-0000-4000-8000-000000000000\", metafile", tables},
		{"orphans-read-the-oldest-first", "loader/orphans/find.go", "b.Modified.Compare(a.Modified)", "a.Modified.Compare(b.Modified)", left},
		{"orphans-take-metadata-for-others", "loader/orphans/orphans.go", "	delete(f.metadata, name)\n", "", left},
		{"orphans-hold-metadata-uncharged", "loader/orphans/orphans.go", "f.held.Grow(int64(entryBytes + len(e.Location))); err", "f.held.Grow(0); err", left},
		{"live-files-of-the-current-snapshot", "loader/catalog/icebergcat/live.go", "		if err := l.snapshot(ctx, &s); err != nil {\n", "		if meta.CurrentSnapshot().SnapshotID != s.SnapshotID {\n			continue\n		}\n		if err := l.snapshot(ctx, &s); err != nil {\n", tables},
		{"live-files-without-removed", "loader/catalog/icebergcat/live.go", "{entries.live, entries.removed}", "{entries.live}", tables},
		{"live-files-without-the-rest", "loader/catalog/icebergcat/live.go", "		if text, ok := token.(string); ok {\n", "		if text, ok := token.(string); ok && text == \"\" {\n", tables},
		{"live-files-without-the-current-file", "loader/catalog/icebergcat/live.go", "	each(meta.location)\n", "", tables},
		{"live-files-without-manifests", "loader/catalog/icebergcat/live.go", "		l.each(m.FilePath())\n", "", tables},
		{"live-files-of-another-table", "loader/catalog/icebergcat/live.go", "	case now != uuid:\n", "	case now == \"\":\n", tables},
		{"live-files-of-truncated-lists", "loader/catalog/icebergcat/live.go", "; files < want {", "; files < 0 {", tables},
		{"live-files-of-broken-manifests", "loader/catalog/icebergcat/live.go", "	if err != nil {\n		return l.catalog.orForget(l.keyOf(m.FilePath(), m.Length()), err)\n", "	if err != nil {\n		return nil\n", commands},
		{"orphans-of-any-namespace", "loader/catalog/icebergcat/state.go", "func (c *Catalog) FileStore(ctx context.Context, table, folder string) (*store.Confined, error) {\n	if err := c.MayWrite(table); err != nil {", "func (c *Catalog) FileStore(ctx context.Context, table, folder string) (*store.Confined, error) {\n	if err := c.MayWrite(table); err != nil && folder == \"\" {", commands},
		{"orphans-of-any-age", "cmd/penstock/orphans.go", "p.clock().Add(-age)", "p.clock().Add(age)", commands},
		{"orphans-of-young-age", "cmd/penstock/orphans.go", "err != nil || age < youngestLeft", "err != nil || age < 0", commands},
		{"orphans-remove-always", "cmd/penstock/orphans.go", "		if !call.remove {\n", "		if !call.remove && i > 0 {\n", commands},
		{"orphans-remove-nothing", "cmd/penstock/orphans.go", "		if !call.remove {\n", "		if !call.remove || i == 0 {\n", commands},
	}
}
