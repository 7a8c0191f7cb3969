package main

// rateMutants are ways to be silent about joins that match few rows.
func rateMutants() []mutant {
	rule, flight, verify := []string{"./joiner/rule"}, []string{"./flight"}, []string{"./loader/verify"}
	return []mutant{
		{"a-share-of-few-rows-is-judged", "joiner/rule/match.go", "rows >= fewRows && matched", "rows >= noneRows && matched", rule},
		{"one-percent-is-few", "joiner/rule/match.go", "matched < (rows+fewShare-1)/fewShare", "matched <= rows/fewShare", rule},
		{"no-match-is-not-few", "joiner/rule/match.go", "rows >= noneRows && matched == 0", "rows >= fewRows && matched == 0", rule},
		{"min-match-does-not-silence", "loader/stream/report.go", "s.MinMatch > 0 || s.AnyMatch ||", "s.AnyMatch ||", flight},
		{"few-matches-are-not-logged", "flight/rates.go", "len(warnings) > 0 {", "len(warnings) > 1 {", flight},
		{"the-oldest-run-stays", "flight/runs.go", "delete(r.texts, r.recent[0])", "delete(r.texts, files)", flight},
		{"verify-accepts-no-match", "loader/verify/keycheck.go", "few := j.Matched == 0 || s.Join", "few := s.Join", verify},
		{"verify-judges-what-min-match-allows", "loader/verify/keycheck.go", "if few && (s.MinMatch == 0 || j.MatchRate < s.MinMatch) {", "if few {", verify},
		{"notes-break-something", "loader/verify/report.go", "f.Grade != worthKnowing", "f.Grade != \"\"", verify},
		{"unasked-duplicates-break-a-stream", "loader/verify/verify.go", "if j.DuplicatesAsked > 0 {", "if j.DuplicatesAsked >= 0 {", verify},
		{"zeros-are-not-folded", "loader/verify/alike.go", "if r == '0' && !digits && more {", "if r == '0' && digits && more {", verify},
		{"samples-of-keys-are-the-first", "loader/verify/forms.go", "	if found || at >= sampledKeys {\n", "	if found || len(s.keys) >= sampledKeys {\n", verify},
		{"filtered-staging-keys-are-shown", "loader/verify/forms.go", "				return found\n", "				return found || row >= 0\n", verify},
	}
}
