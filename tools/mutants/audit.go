package main

// auditMutants are ways to lose lines of the audit log, and to use keys that should not be.
func auditMutants() []mutant {
	audit, flight, issuer, keys := []string{"./internal/audit"}, []string{"./flight"}, []string{"./internal/issuer"}, []string{"./cmd/penstock/keyfile"}
	return []mutant{
		{"lost-lines-are-forgotten", "internal/audit/audit.go", "\tl.failed.Store(&err)\n", "", audit},
		{"rotated-logs-are-written", "internal/audit/audit.go", "os.SameFile(named, open)", "named != nil && open != nil", audit},
		{"anyone-may-write-the-audit-log", "internal/audit/audit.go", "stat.Mode().Perm()&othersMayWrite != 0", "stat.Mode().Perm() == 0", audit},
		{"strangers-fill-the-audit-log", "internal/audit/audit.go", "\tif l.allowed < 1 {\n", "\tif l.allowed < -1e9 {\n", audit},
		{"uncounted-refusals-are-lost", "internal/audit/audit.go", "\t\t\tl.more++\n", "", audit},
		{"streams-that-never-began-have-no-line", "flight/audit.go", "case denied || method == \"DoGet\":", "case denied:", flight},
		{"refusals-have-no-line", "flight/audit.go", "case denied || method == \"DoGet\":", "case denied && n == nil || method == \"DoGet\":", flight},
		{"streams-go-on-without-audit", "flight/get.go", "err := s.options.Audit.Err(); err != nil", "err := s.options.Audit.Err(); err != nil && false", flight},
		{"audited-rows-are-zero", "flight/get.go", "\to.note.read(end)\n", "", flight},
		{"keys-of-issuers-never-grow-old", "internal/issuer/issuer.go", "age > i.maxAge", "age < 0", issuer},
		{"any-group-may-read-keys", "cmd/penstock/keyfile/keyfile_unix.go", " && slices.Contains(p.groups, int(owner.Gid))", " && slices.Max(p.groups) > 0", keys},
		{"groups-may-write-keys", "cmd/penstock/keyfile/keyfile_unix.go", "file.Mode().Perm()&butGroupRead == 0", "file.Mode().Perm()&7 == 0", keys},
		{"groups-of-anyone-may-read-keys", "cmd/penstock/keyfile/keyfile_unix.go", "owner.Uid == 0 && p.user != 0", "p.user != 0", keys},
	}
}
