package main

// rateMutants are ways to be silent about joins that match few rows.
func rateMutants() []mutant {
	rule, flight := []string{"./joiner/rule"}, []string{"./flight"}
	return []mutant{
		{"a-share-of-few-rows-is-judged", "joiner/rule/match.go", "rows >= fewRows && matched", "rows >= noneRows && matched", rule},
		{"one-percent-is-few", "joiner/rule/match.go", "matched < (rows+fewShare-1)/fewShare", "matched <= rows/fewShare", rule},
		{"no-match-is-not-few", "joiner/rule/match.go", "rows >= noneRows && matched == 0", "rows >= fewRows && matched == 0", rule},
		{"min-match-does-not-silence", "loader/stream/report.go", "s.MinMatch > 0 || !s.Join", "!s.Join", flight},
		{"few-matches-are-not-logged", "flight/rates.go", "len(warnings) > 0 {", "len(warnings) > 1 {", flight},
	}
}
