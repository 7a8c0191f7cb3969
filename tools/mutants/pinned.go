package main

// pinnedMutants are ways to misjudge a file that is missing.
func pinnedMutants() []mutant {
	loader, pinned := []string{"./loader"}, "loader/pinned.go"
	return []mutant{
		{"what-is-missing-is-corrupt", pinned, "if err := r.Rows.Err(); r.gone == nil && errors.Is(err, fs.ErrNotExist) {", "if err := r.Rows.Err(); r.gone != nil && errors.Is(err, fs.ErrNotExist) {", loader},
		{"what-is-damaged-has-expired", pinned, "errors.Is(err, fs.ErrNotExist) {", "(errors.Is(err, fs.ErrNotExist) || err != nil) {", loader},
		{"what-is-missing-has-expired", pinned, "fault.Corrupt, fault.Unavailable:\n", "fault.Corrupt, fault.Unavailable:\n		return catalog.ExpiredSnapshot(r.table.Name, r.table.Pin.Snapshot)\n", loader},
		{"checksums-are-not-asked-after", "loader/verify/verify.go", "\t\tif rows.WithoutChecksum() {\n", "\t\tif rows.WithoutChecksum() && file == \"\" {\n", []string{"./loader/verify"}},
	}
}
