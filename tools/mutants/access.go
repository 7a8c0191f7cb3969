package main

// accessMutants are ways to admit clients that have no right to be, or to lose the files that decide it.
func accessMutants() []mutant {
	tokens, flight, cmd := []string{"./internal/tokens"}, []string{"./flight"}, []string{"./cmd/penstock"}
	watch, certificates, keys := []string{"./cmd/penstock/watch"}, []string{"./cmd/penstock/servertls"}, []string{"./cmd/penstock/keyfile"}
	return []mutant{
		{"tokens-are-compared-by-eight-bytes", "internal/tokens/tokens.go", "subtle.ConstantTimeCompare(one.digest[:], digest[:]) == 0", "one.subject == \"\"", tokens},
		{"tokens-never-expire", "internal/tokens/tokens.go", "!one.expires.IsZero() && !now.Before(one.expires)", "now.IsZero()", tokens},
		{"tokens-expire-a-moment-late", "internal/tokens/tokens.go", "!now.Before(one.expires)", "now.After(one.expires)", tokens},
		{"refused-calls-are-answered", "flight/calls.go", "err := refusal(stream.Context()); err != nil", "err := refusal(stream.Context()); err != nil && false", flight},
		{"the-first-of-two-tokens-counts", "flight/authenticate.go", "len(sent) != 1", "len(sent) == 0", flight},
		{"any-scheme-is-bearer", "flight/authenticate.go", " || !strings.EqualFold(token[:len(bearer)], bearer)", "", flight},
		{"unasked-tokens-are-ignored", "flight/authenticate.go", "\t\tif len(sent) > 0 {", "\t\tif len(sent) > 9 {", flight},
		{"health-needs-tokens", "flight/authenticate.go", "strings.HasPrefix(call.FullMethodName, \"/grpc.\")", "call.FullMethodName == \"\"", flight},
		{"subjects-count-as-hosts", "flight/authenticate.go", "return \"subject \" + subject // no host has a space", "return hostOf(ctx)", flight},
		{"broken-files-are-loaded-forever", "cmd/penstock/watch/watch.go", "\t\tg.loaded = now\n", "", watch},
		{"files-are-loaded-while-they-change", "cmd/penstock/watch/watch.go", "!settled || now == g.loaded", "now == g.loaded", watch},
		{"modes-are-not-compared", "cmd/penstock/watch/watch.go", "path, stat.Mode(), content", "path, stat.Mode().Type(), content", watch},
		{"keys-may-be-read-by-others", "cmd/penstock/keyfile/keyfile.go", "use == Secret && usableByOthers(stat)", "use != Secret && usableByOthers(stat)", keys},
		{"old-tls-is-served", "cmd/penstock/servertls/servertls.go", "\t\tMinVersion:   tls.VersionTLS13,\n", "\t\tMinVersion:   tls.VersionTLS12,\n", certificates},
		{"certificates-of-clients-are-not-checked", "cmd/penstock/servertls/servertls.go", "tls.RequireAndVerifyClientCert", "tls.RequireAnyClientCert", certificates},
		{"expired-certificates-are-loaded", "cmd/penstock/servertls/servertls.go", "case now.After(leaf.NotAfter):", "case now.IsZero():", certificates},
		{"open-addresses-need-no-credentials", "cmd/penstock/entrance.go", "\tif !a.authenticates() {", "\tif a.certificates == nil {", cmd},
		{"metrics-beyond-loopback-are-open", "cmd/penstock/entrance.go", "\t\thandler = withToken(authenticate, handler)\n", "", cmd},
		{"tokens-are-sent-in-the-clear", "cmd/penstock/client/security.go", "!encrypted && s.Token != \"\" && !staysHere(target)", "!encrypted && s.Token != \"\" && target == \"\"", cmd},
	}
}
