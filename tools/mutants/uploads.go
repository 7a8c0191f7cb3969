package main

// uploadMutants break how files are written in parts, listed and discarded.
func uploadMutants() []mutant {
	store := []string{"-run", "Upload|List|Discard|Confine|Unknown|Folder|Unfinished|Abort|Change|Pages", "./internal/store"}
	s3 := []string{"-run", "Uploads$|Publish|Complete|Part|Taken|Sending|Pages|ListingsThatFail|Buckets|OneBuffer|MemoryOf|RequestsOf|UploadsThatHang", "./internal/store/s3"}
	left := []string{"./loader/orphans"}
	return []mutant{
		{"files-are-replaced-on-disk", "internal/store/local.go", "	return os.Link(from, to)\n", "	return os.Rename(from, to)\n", store},
		{"files-without-links-are-replaced", "internal/store/local_upload.go", "	taken, err := os.OpenFile(u.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFile)", "	taken, err := os.OpenFile(u.path, os.O_WRONLY|os.O_CREATE, newFile)", store},
		{"content-is-not-synced", "internal/store/local_upload.go", "	err := errors.Join(u.system.syncFile(u.file), u.file.Close())\n", "	err := u.file.Close()\n", store},
		{"names-are-not-synced", "internal/store/local_upload.go", "	if err := u.system.syncName(u.path); err != nil {", "	if err := error(nil); err != nil {", store},
		{"lost-links-count-as-conflicts", "internal/store/local_upload.go", "	case missing == nil && unreadable == nil && os.SameFile(found, mine):\n", "	case missing == nil && unreadable == nil && os.SameFile(found, mine) && err == nil:\n", store},
		{"unknown-links-count-as-failed", "internal/store/local_upload.go", "		return WithUnknownOutcome(unwritten(u.location, err))\n	}\n}\n\n// publishByRename", "		return unwritten(u.location, err)\n	}\n}\n\n// publishByRename", store},
		{"files-in-work-are-listed", "internal/store/local_list.go", "	if unfinished != l.unfinished || ", "	if l.unfinished && !unfinished || ", store},
		{"links-are-listed", "internal/store/local_list.go", "!found.Type().IsRegular()", "found.IsDir()", store},
		{"any-file-can-be-discarded", "internal/store/local_list.go", "!ok || name != filepath.Base(path) {", "!ok && name != \"\" {", store},
		{"hanging-finishes-are-known", "internal/store/bounded_upload.go", "	if wasLeftBehind(err) {\n		return WithUnknownOutcome(err)\n	}\n	return err\n}\n\nfunc (u *boundedUpload) Abort", "	return err\n}\n\nfunc (u *boundedUpload) Abort", store},
		{"aborts-run-beside-hanging-writes", "internal/store/bounded_upload.go", "	u.discard = u.running > 0\n", "	u.discard = false\n", store},
		{"uploads-with-hanging-calls-stay", "internal/store/bounded_upload.go", "	if u.discard && u.running == 0 {", "	if u.discard && u.running > 0 {", store},
		{"uploads-of-callers-that-left-stay", "internal/store/bounded_upload.go", "	if !wasLeftBehind(err) && !ran {", "	if !wasLeftBehind(err) && !ran && err == nil {", store},
		{"files-are-written-anywhere", "internal/store/confined.go", "	if c.prefixes.Contain(inside) {", "	if folder || c.prefixes.Contain(inside) {", store},
		{"prefixes-cannot-be-listed", "internal/store/confined.go", "strings.TrimRight(location, \"/\") + \"/file\"", "location", store},
		{"objects-are-replaced", "internal/store/s3/send.go", "			IfNoneMatch: aws.String(\"*\"), Metadata:", "			Metadata:", s3},
		{"long-objects-are-replaced", "internal/store/s3/send.go", "			IfNoneMatch: aws.String(\"*\"),\n		}", "		}", s3},
		{"refused-after-a-lost-answer-is-ours", "internal/store/s3/send.go", "			exists = err == nil && !mine\n", "			exists = err == nil && !mine && !lost\n", s3},
		{"lost-answers-are-known", "internal/store/s3/send.go", "		lost = lost || !rejected(err)\n", "		lost = lost || false\n", s3},
		{"refusals-are-unknown", "internal/store/s3/send.go", "		lost = lost || !rejected(err)\n", "		lost = true\n", s3},
		{"discarded-uploads-are-unknown", "internal/store/s3/send.go", "	case lost && !errors.Is(err, errDiscarded):", "	case lost:", s3},
		{"parts-have-no-checksum", "internal/store/s3/send.go", "ContentLength: aws.Int64(int64(len(content))), ChecksumCRC32C: sum,\n		}", "ContentLength: aws.Int64(int64(len(content))),\n		}", s3},
		{"returned-checksums-are-ignored", "internal/store/s3/send.go", "	if got != nil && *got != *want {", "	if got == nil && want == nil {", s3},
		{"parts-are-completed-in-any-order", "internal/store/s3/send.go", "cmp.Compare(*a.PartNumber, *b.PartNumber)", "-cmp.Compare(*a.PartNumber, *b.PartNumber)", s3},
		{"pages-count-as-files", "internal/store/s3/send.go", "		if err == nil && aws.ToString(out.ETag) == \"\" {\n			return broken(\"a file without", "		if err != nil && aws.ToString(out.ETag) == \"\" {\n			return broken(\"a file without", s3},
		{"buffers-are-not-released", "internal/store/s3/buffer.go", "	b.content = nil\n	b.held.Release()\n", "	b.content = nil\n", s3},
		{"small-buffers-stay-reserved", "internal/store/s3/buffer.go", "	old.held.Release()\n", "", s3},
		{"uploads-hold-any-number-of-parts", "internal/store/s3/upload.go", "	maxBuffers = 4\n", "	maxBuffers = 6\n", s3},
		{"waits-for-memory-outlast-parts", "internal/store/s3/buffer.go", "	if u.hurry != nil {\n		u.hurry()\n	}\n}\n\n// drain", "}\n\n// drain", s3},
		{"failed-parts-are-left-out", "internal/store/s3/buffer.go", "	return u.failure()\n}\n\n// free", "	return nil\n}\n\n// free", s3},
		{"bodies-are-read-after-their-request", "internal/store/s3/body.go", "	b.taken, b.content, b.at = true, nil, 0\n", "	b.at = 0\n", s3},
		{"uploads-are-given-up-while-they-send", "internal/store/s3/body.go", "		b.try.timer.Reset(b.try.silence)\n", "", s3},
		{"lists-end-after-a-page", "internal/store/s3/list.go", "	l.after, l.ended = next, !more\n", "	l.after, l.ended = next, true\n", s3},
		{"keys-stay-encoded", "internal/store/s3/list.go", "		name = decoded\n", "		_ = decoded\n", s3},
		{"other-folders-are-listed", "internal/store/s3/list.go", "		key += \"/\"\n", "		key += \"\"\n", s3},
		{"keys-of-other-folders-are-taken", "internal/store/s3/list.go", "	if !strings.HasPrefix(name, l.folder.key) {", "	if strings.HasPrefix(name, \"?\") {", s3},
		{"any-page-is-a-list", "internal/store/s3/list.go", "	if aws.ToString(out.Name) == \"\" {", "	if aws.ToString(out.Name) == \"?\" {", s3},
		{"files-of-others-are-leftovers", "loader/orphans/orphans.go", "	if !s.Owned(e.Location) || ", "	if ", left},
		{"new-files-are-leftovers", "loader/orphans/orphans.go", "!e.Modified.Before(s.Before)", "e.Modified.Equal(s.Before.AddDate(9, 0, 0))", left},
		{"files-without-a-time-are-leftovers", "loader/orphans/orphans.go", "e.Modified.IsZero() || ", "", left},
		{"needed-files-are-leftovers", "loader/orphans/orphans.go", "	delete(f.files, name)\n", "	delete(f.files, location)\n", left},
		{"leftovers-are-not-reserved", "loader/orphans/orphans.go", "	if err := f.held.Grow(int64(entryBytes + len(e.Location) + len(e.Upload))); err != nil {", "	if err := f.held.Grow(0); err != nil {", left},
	}
}
