package main

// unlistedMutants are ways to plan with too many or too few of a dataset's tables, to take another entry for an added one, and to
// explain wrong sizes.
func unlistedMutants() []mutant {
	plan, fanout, sqlcat := []string{"./loader/plan"}, []string{"./loader/fanout"}, []string{"./loader/catalog/sqlcat"}
	loader := []string{"-run", "TestFilesOfUnread|TestUnread|TestUnlisted|TestALayout|TestAddedEntriesAreNotHeld|TestPlanKey", "./loader"}
	datasets, catalog, client := []string{"./loader/dataset"}, []string{"./loader/catalog/icebergcat"}, []string{"./cmd/penstock/client"}
	with, sizes := "loader/dataset/with.go", "loader/catalog/icebergcat/sizes.go"
	return []mutant{
		{"files-of-unread-entries-are-listed", "loader/plan.go", "!needs[i] && of == readEntries", "!needs[i] && of > allEntries", loader},
		{"verify-lists-what-streams-read", "loader/verify.go", "query, allEntries)", "query, readEntries)", loader},
		{"streams-take-plans-of-verify", "loader/plans.go", "withheld: r.Withheld(), entries: of})", "withheld: r.Withheld()})", loader},
		{"unlisted-entries-match-nothing-in-silence", "loader/joined/staging.go", "s.plan.Staging[table].Unread {", "s.plan.Staging[table].Unread && s.spec.CountOnly {", loader},
		{"groups-are-of-the-tables-that-are-read", "loader/fanout/key.go", "Tables: p.TablesID, ", "Tables: p.FilesID, ", fanout},
		{"members-read-the-same-tables", "loader/fanout/member.go", "made.TablesID == p.TablesID", "made.FilesID == p.FilesID", fanout},
		{"unread-tables-are-in-splits", "loader/plan/explain.go", "p.Staging[k].Unread {", "p.Staging[k].Unread && k < 0 {", loader},
		{"equal-entries-are-refused", with, "len(differ) > 0", "len(differ) >= 0", datasets},
		{"equal-entries-are-added-twice", with, "\t\t\tcontinue\n\t\t}\n\t\tif len(s.Key)", "\t\t}\n\t\tif len(s.Key)", datasets},
		{"other-entries-are-equal", with, "!bytes.Equal(text, b[name])", "bytes.Equal(text, b[name])", datasets},
		{"missing-fields-are-equal", with, "; !both {", "; both {", datasets},
		{"filters-are-compared-by-their-text", with, "\t\ts.Filter = s.Filter.canonical()\n", "", datasets},
		{"configured-entries-are-not-held", "loader/plan.go", "\tp.added = added\n", "\tp.added = max(added, len(q.With))\n", loader},
		{"unrecorded-columns-take-nothing", sizes, "!ok || size < 0", "ok && size < 0", catalog},
		{"structs-take-nothing", sizes, "\t\t\tids = appendStored(ids, inner)\n", "\t\t\tids = append(ids, inner.ID)\n", catalog},
		{"files-without-sizes-take-nothing", "loader/plan/sizes.go", "\ts.columns += f.Bytes\n", "", plan},
		{"expected-tables-stay-as-they-were", "loader/catalog/icebergcat/expect.go", "\tdelete(e.found, name)\n", "", catalog},
		{"tables-are-not-expected", "loader/catalog/icebergcat/load.go", "\tif !known && err == nil {\n", "\tif known || !known {\n", catalog},
		{"views-are-located-together", "loader/catalog/sqlcat/all.go", ` && !strings.EqualFold(row["iceberg_type"], "VIEW") {`, " {", sqlcat},
		{"namespaces-do-not-tell-tables-apart", "loader/catalog/sqlcat/all.go", "table_namespace = ` + c.mark(len(args)-1) + ` AND ", "", sqlcat},
		{"other-versions-are-not-said", "cmd/penstock/client/version.go", "number(*server) == number(v.own)", "number(*server) != number(v.own)", client},
		{"commits-are-versions", "cmd/penstock/client/version.go", "number(*server) == number(v.own)", "*server == v.own", client},
		{"versions-of-streams-are-not-heard", "cmd/penstock/client/version.go", "\t\t\ts.versions.note(headers)\n", "\t\t\t_ = headers\n", client},
	}
}
