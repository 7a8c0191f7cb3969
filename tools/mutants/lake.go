package main

// lakeMutants break the reading of S3, and catalogs.
func lakeMutants() []mutant {
	s3, scanned := []string{"./internal/store/s3"}, []string{"./loader/scan"}
	rest, iceberg, loaded := []string{"./loader/catalog/restcat"}, []string{"./loader/catalog/icebergcat"}, []string{"./loader"}
	const grants, lease = "loader/catalog/tablestore/grants.go", "loader/catalog/tablestore/lease.go"
	return []mutant{
		{"s3-ranges-of-other-places-count", "internal/store/s3/fetch.go", "	case first != off || last != off+int64(len(p))-1:\n", "	case last-first != int64(len(p))-1:\n", s3},
		{"s3-files-may-have-grown", "internal/store/s3/fetch.go", "	case total != o.size:\n", "	case total < o.size:\n", s3},
		{"s3-bodies-may-go-on", "internal/store/s3/fetch.go", "m > 0 || !errors.Is(err, io.EOF)", "m < 0 && err != nil", s3},
		{"s3-cut-bodies-begin-anew-in-the-middle", "internal/store/s3/object.go", "o.fetch(ctx, t, p[done:], off+int64(done))", "o.fetch(ctx, t, p[done:], off)", s3},
		{"s3-tags-may-change", "internal/store/s3/object.go", "	case o.tag != tag:\n", "	case o.tag != tag && tag == o.location:\n", s3},
		{"s3-footers-forget-the-tag", "internal/parquet/footer.go", "	footer.tag = store.TagOf(obj)\n", "	footer.tag = \"\"\n", scanned},
		{"s3-silence-is-asked-on", "internal/store/s3/retry.go", "made.silent >= maxSilent", "made.silent >= maxTries+maxSilent", s3},
		{"s3-expired-keys-are-kept", "internal/store/s3/retry.go", "		made.renewed = true\n		s.expired(ctx, f.key)\n", "		made.renewed = true\n", s3},
		{"s3-keys-are-escaped-already", "internal/store/s3/location.go", "	bucket, key, _ = strings.Cut(rest, \"/\")\n", "	bucket, key, _ = strings.Cut(rest, \"/\")\n	key = strings.ReplaceAll(key, \"%20\", \" \")\n", s3},
		{"runs-span-any-gap", "internal/parquet/source.go", "next.start-last.end() <= f.gap &&", "next.start-last.end() <= 1000*f.gap &&", scanned},
		{"what-is-read-ahead-takes-all-memory", "loader/scan/spare.go", "b.InUse()+n <= limit-limit/urgentDivisor", "b.InUse()+n <= limit", scanned},
		{"ranges-begin-all-at-once", "loader/joined/prefetch.go", "min(s.batches, max(1, maxPrefetched/len(s.lanes)))", "max(1, maxPrefetched/len(s.lanes))", loaded},
		{"keys-of-one-table-open-all", grants, "	if t := f.tables[id]; t != nil {\n", "	for _, t := range f.tables {\n", iceberg},
		{"the-shortest-prefix-counts", grants, "cmp.Compare(length(y), length(x))", "cmp.Compare(length(x), length(y))", iceberg},
		{"keys-are-given-for-good", lease, "ok && !maps.Equal(c.Properties, l.given.Properties) {", "ok && (!maps.Equal(c.Properties, l.given.Properties) || ok) {", iceberg},
		{"keys-are-used-to-their-end", lease, "	c.Expires = g.Expires.Add(-min(left/earlyPart, maxEarly))\n", "	c.Expires = g.Expires\n", iceberg},
		{"servers-override-nothing", "loader/catalog/restcat/catalog.go", "{answer.Defaults, c.options.Properties, answer.Overrides}", "{answer.Defaults, answer.Overrides, c.options.Properties}", rest},
		{"tokens-are-used-to-their-end", "loader/catalog/restcat/token.go", "		t.renew = t.ends.Add(-min(life/earlyPart, maxEarly))\n", "		t.renew = t.ends\n", rest},
		{"refused-tokens-are-kept", "loader/catalog/restcat/token.go", "	if t.token == token {\n", "	if t.token != token {\n", rest},
		{"redirects-take-the-token-along", "loader/catalog/restcat/catalog.go", "CheckRedirect: sameHost}", "}", rest},
		{"keys-of-a-table-stand-beside-those-of-a-prefix", "loader/catalog/restcat/table.go", "			if !c.options.Stores.OfCredential(name) {\n", "			if name != \"s3.session-token-expires-at-ms\" {\n", rest},
		{"hints-are-never-behind", "loader/catalog/dircat/version.go", "for highest = n; len(files[highest+1]) > 0; {", "for highest = n; len(files[highest+1]) > len(entries); {", iceberg},
		{"one-of-several-versions-will-do", "loader/catalog/dircat/version.go", "switch of := files[highest]; len(of) {", "switch of := files[highest]; min(len(of), 1) {", iceberg},
		{"tables-are-of-any-catalog", "loader/catalog/sqlcat/row.go", "WHERE catalog_name = %s AND", "WHERE catalog_name >= %s AND", iceberg},
	}
}
