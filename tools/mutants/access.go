package main

// accessMutants are ways to admit clients that have no right to be, or to lose the files that decide it.
func accessMutants() []mutant {
	tokens, flight, cmd := []string{"./internal/tokens"}, []string{"./flight"}, []string{"./cmd/penstock"}
	issuer, jwks := []string{"./internal/issuer"}, []string{"./cmd/penstock/jwks"}
	watch, certificates, keys := []string{"./cmd/penstock/watch"}, []string{"./cmd/penstock/servertls"}, []string{"./cmd/penstock/keyfile"}
	return []mutant{
		{"tokens-are-compared-by-eight-bytes", "internal/tokens/tokens.go", "subtle.ConstantTimeCompare(one.digest[:], digest[:]) == 0", "subtle.ConstantTimeCompare(one.digest[:], digest[:]) == 2", tokens},
		{"tokens-never-expire", "internal/tokens/tokens.go", "!one.expires.IsZero() && !now.Before(one.expires)", "now.IsZero()", tokens},
		{"tokens-expire-a-moment-late", "internal/tokens/tokens.go", "!now.Before(one.expires)", "now.After(one.expires)", tokens},
		{"refused-calls-are-answered", "flight/calls.go", "err := refusal(stream.Context()); err != nil", "err := refusal(stream.Context()); err != nil && false", flight},
		{"the-first-of-two-tokens-counts", "flight/authenticate.go", "len(sent) != 1", "len(sent) == 0", flight},
		{"any-scheme-is-bearer", "flight/authenticate.go", " || !strings.EqualFold(token[:len(bearer)], bearer)", "", flight},
		{"unasked-tokens-are-ignored", "flight/authenticate.go", "\t\tif len(sent) > 0 {", "\t\tif len(sent) > 9 {", flight},
		{"subjects-count-as-hosts", "flight/authenticate.go", "return \"subject \" + subject // no host has a space", "return hostOf(ctx) + subject[:0]", flight},
		{"broken-files-are-loaded-forever", "cmd/penstock/watch/watch.go", "\tg.loaded = now\n", "", watch},
		{"files-are-loaded-while-they-change", "cmd/penstock/watch/watch.go", "(!settled || now == g.loaded)", "now == g.loaded && (settled || !settled)", watch},
		{"modes-are-not-compared", "cmd/penstock/watch/watch.go", "path, stat.Mode(), content", "path, stat.Mode().Type(), content", watch},
		{"keys-may-be-read-by-others", "cmd/penstock/keyfile/keyfile.go", "use == Secret && usableByOthers(stat)", "use != Secret && usableByOthers(stat)", keys},
		{"old-tls-is-served", "cmd/penstock/servertls/servertls.go", "\t\tMinVersion:   tls.VersionTLS13,\n", "\t\tMinVersion:   tls.VersionTLS12,\n", certificates},
		{"certificates-of-clients-are-not-checked", "cmd/penstock/servertls/servertls.go", "tls.RequireAndVerifyClientCert", "tls.RequireAnyClientCert", certificates},
		{"expired-certificates-are-loaded", "cmd/penstock/servertls/servertls.go", "case now.After(leaf.NotAfter):", "case now.IsZero():", certificates},
		{"open-addresses-need-no-credentials", "cmd/penstock/entrance.go", "\tif !a.authenticates() {", "\tif a.certificates == nil {", cmd},
		{"metrics-beyond-loopback-are-open", "cmd/penstock/entrance.go", "\t\thandler = withToken(authenticate, handler)\n", "", cmd},
		{"tokens-are-sent-in-the-clear", "cmd/penstock/client/security.go", "!encrypted && s.Token != \"\" && !staysHere(target)", "!encrypted && s.Token != \"\" && target == \"\"", cmd},
		{"signatures-of-issuers-are-not-checked", "internal/issuer/issuer.go", "err := parsed.Claims(key.Key, &claims, &all)", "err := errors.Join(parsed.UnsafeClaimsWithoutVerification(&claims, &all), map[bool]error{}[key.Key == nil])", issuer},
		{"tokens-are-for-any-audience", "internal/issuer/issuer.go", "AnyAudience: jwt.Audience{i.audience}, ", "", issuer},
		{"tokens-are-of-any-issuer", "internal/issuer/issuer.go", "Issuer: i.name, ", "", issuer},
		{"tokens-of-issuers-need-no-expiry", "internal/issuer/issuer.go", "claims.Expiry == nil", "claims.Expiry == nil && claims.Subject == \"\"", issuer},
		{"keys-serve-other-algorithms", "internal/issuer/issuer.go", "key.Algorithm == \"\" || key.Algorithm == algorithm", "key.Algorithm != algorithm || true", issuer},
		{"keys-for-encryption-check-signatures", "internal/issuer/issuer.go", " && (key.Use == \"\" || key.Use == \"sig\")", "", issuer},
		{"small-keys-are-accepted", "internal/issuer/issuer.go", "of.N.BitLen() < minRSA", "of.N.BitLen() < minRSA/4", issuer},
		{"tokens-have-other-forms", "internal/issuer/issuer.go", "base64.RawURLEncoding.EncodeToString(raw) != part", "len(raw) > len(part)", issuer},
		{"tokens-without-a-key-take-any", "internal/issuer/issuer.go", "id == \"\" && len(keys.keys) == 1", "len(keys.keys) == 1", issuer},
		{"keys-follow-redirects", "cmd/penstock/jwks/jwks.go", "return http.ErrUseLastResponse", "return nil", jwks},
		{"keys-come-in-the-clear", "cmd/penstock/jwks/jwks.go", " && (parsed.Scheme != \"http\" || !loopback(parsed.Hostname()))", " && parsed.Scheme != \"http\"", jwks},
	}
}
